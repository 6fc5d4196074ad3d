"""What Redis runs in one step: the rules of `account`, in Lua, by Redis's own clock.

Each begins with the time that a test gives, or nothing: the clock of the server is the same for
all who ask.
"""

from __future__ import annotations

from swink_gateway.policy.limits.ledger import MOST_AHEAD_SECONDS, WINDOW_SECONDS

__all__ = ["ADMIT", "ALIVE_SECONDS", "CHARGE", "ENTER", "FAIL", "LOOK"]

ALIVE_SECONDS = 15
"""Seconds after its last sign for which a process still counts."""

MONTH_SECONDS = 32 * 86400

FAILING_SECONDS = 3600
"""For which failures are remembered, but never for less than the target rests."""

_NOW = """
local time = redis.call('TIME')
local now = tonumber(ARGV[1]) or (time[1] + time[2] / 1000000)
"""

# The names of a day and its month: http://howardhinnant.github.io/date_algorithms.html
_PERIODS = """
local function periods(at)
  local days = math.floor(at / 86400) + 719468
  local era = math.floor(days / 146097)
  local left = days - era * 146097
  local leaps = math.floor(left / 1460) - math.floor(left / 36524) + math.floor(left / 146096)
  local year = math.floor((left - leaps) / 365)
  local day = left - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local shifted = math.floor((5 * day + 2) / 153)
  local month = shifted < 10 and shifted + 3 or shifted - 9
  year = year + era * 400 + (month <= 2 and 1 or 0)
  local name = string.format('%04d-%02d', year, month)
  return string.format('%s-%02d', name, day - math.floor((153 * shifted + 2) / 5) + 1), name
end
"""

_SIGN = f"""
local function sign(members, me)
  redis.call('ZADD', members, now, me)
  redis.call('ZREMRANGEBYSCORE', members, '-inf', now - {ALIVE_SECONDS})
  redis.call('EXPIRE', members, {2 * ALIVE_SECONDS})
end
"""

_TAKEN = f"""
local function taken(members, seconds, dollars, streams)
  local sums, first, oldest = {{r = 0, t = 0}}, math.floor(now) - {WINDOW_SECONDS}, nil
  local fields = redis.call('HGETALL', seconds)
  for i = 1, #fields, 2 do
    local at, what = tonumber(string.sub(fields[i], 2)), string.sub(fields[i], 1, 1)
    if at < first or at > now + {MOST_AHEAD_SECONDS} then
      redis.call('HDEL', seconds, fields[i])
    else
      sums[what] = sums[what] + fields[i + 1]
      oldest = math.min(oldest or at, at)
    end
  end
  local under_way, counts = 0, redis.call('HGETALL', streams)
  for i = 1, #counts, 2 do
    if redis.call('ZSCORE', members, counts[i]) then
      under_way = under_way + counts[i + 1]
    elseif counts[i + 1] == '0' then
      redis.call('HDEL', streams, counts[i])
    end
  end
  local day, month = periods(now)
  return {{sums.r, sums.t, under_way,
    tonumber(redis.call('HGET', dollars, day) or '0'),
    tonumber(redis.call('HGET', dollars, month) or '0'),
    (oldest or first) + {WINDOW_SECONDS + 1}}}
end
local function told(row)
  return {{row[1], row[2], row[3], string.format('%.17g', row[4]), string.format('%.17g', row[5]),
    row[6], string.format('%.6f', now)}}
end
"""

# Numbers of one account stand in the order of `taken`. What others hold is as good as taken.
_HELD = """
local function held(members, leases, me)
  local sums, allowance, kept = {0, 0, 0, 0, 0}, nil, redis.call('HGETALL', leases)
  for i = 1, #kept, 2 do
    local numbers = cjson.decode(kept[i + 1])
    if kept[i] == 'allowance' then
      allowance = numbers
    elseif not redis.call('ZSCORE', members, kept[i]) then
      redis.call('HDEL', leases, kept[i])
    elseif kept[i] ~= me then
      for j = 1, 5 do sums[j] = sums[j] + numbers[j] end
    end
  end
  return sums, allowance
end
local function exact(numbers)
  for j = 1, 5 do numbers[j] = string.format('%.17g', numbers[j]) end
  return numbers
end
"""

_ADD = f"""
local function add(seconds, dollars, at, requests, tokens, paid)
  local second = string.format('%d', math.floor(at))
  redis.call('HINCRBY', seconds, 'r' .. second, requests)
  redis.call('HINCRBY', seconds, 't' .. second, tokens)
  redis.call('EXPIRE', seconds, {2 * WINDOW_SECONDS})
  if tonumber(paid) ~= 0 then
    local day, month = periods(at)
    redis.call('HINCRBYFLOAT', dollars, day, paid)
    redis.call('HINCRBYFLOAT', dollars, month, paid)
    redis.call('PERSIST', dollars)
  end
end
"""

LOOK = (
    _NOW + _PERIODS + _SIGN + _TAKEN + _HELD + f"""
sign(KEYS[1], ARGV[2])
local members = redis.call('ZCARD', KEYS[1])
local rows = {{members}}
for i = 2, #KEYS, 4 do
  local row = taken(KEYS[1], KEYS[i], KEYS[i + 1], KEYS[i + 2])
  local others, allowance = held(KEYS[1], KEYS[i + 3], ARGV[2])
  local lease, kept = {{0, 0, 0, 0, 0}}, {{}}
  for j = 1, 5 do
    local limit = allowance and tonumber(allowance[j])
    if limit then
      local left = limit - row[j]
      lease[j] = math.max(0, math.min(left / (2 * members), left - others[j]))
    end
    kept[j] = math.max(lease[j], tonumber(ARGV[2 + (i - 2) / 4 * 5 + j]))
  end
  if allowance then
    redis.call('HSET', KEYS[i + 3], ARGV[2], cjson.encode(kept))
    redis.call('EXPIRE', KEYS[i + 3], {MONTH_SECONDS})
  end
  rows[#rows + 1] = {{told(row), exact(lease)}}
end
return rows
"""
)  # fmt: skip
"""Give a sign (now, me, and five numbers that I hold of each account), and return how many there
are, and what each account has taken, and what I may hold of it from now on."""

ADMIT = (
    _NOW + _PERIODS + _SIGN + _TAKEN + _HELD + _ADD + """
sign(KEYS[1], ARGV[2])
local row = taken(KEYS[1], KEYS[2], KEYS[3], KEYS[4])
local others = held(KEYS[1], KEYS[5], ARGV[2])
local admitted, room = 1, {}
local more = {1, ARGV[3], 1, ARGV[4], ARGV[4]}
for i = 1, 5 do
  local limit = tonumber(ARGV[4 + i])
  if limit and row[i] >= limit then
    admitted = 0
  elseif limit and admitted == 1 and row[i] + others[i] >= limit then
    admitted = -1
  end
  room[i] = limit and limit - row[i] - more[i] - others[i] or math.huge
end
if admitted == 1 then
  local day, month = periods(now)
  for _, name in ipairs(redis.call('HKEYS', KEYS[3])) do
    if name ~= day and name ~= month then redis.call('HDEL', KEYS[3], name) end
  end
  add(KEYS[2], KEYS[3], now, 1, ARGV[3], ARGV[4])
  redis.call('HINCRBY', KEYS[4], ARGV[2], 1)
  redis.call('EXPIRE', KEYS[4], 86400)
  redis.call('HSET', KEYS[5], 'allowance', cjson.encode({unpack(ARGV, 5, 9)}))
elseif admitted == -1 then
  for i = 1, 5 do row[i] = row[i] + (i < 4 and math.ceil(others[i]) or others[i]) end
end
return {admitted, redis.call('ZCARD', KEYS[1]), told(row), exact(room)}
"""
)  # fmt: skip
"""Charge a call (now, me, tokens, dollars, and five limits), or do not.

Return 1 if it was admitted, 0 if a limit is reached, -1 if it is by what others hold; how many
there are, what the account had taken (with -1, others hold, too), and what I may hold at most."""

CHARGE = (
    _NOW + _PERIODS + _ADD + """
local day, month = periods(now)
for i, name in ipairs({day, month}) do
  if tonumber(ARGV[8 + i]) > 0 then redis.call('HSETNX', KEYS[2], name, ARGV[8 + i]) end
end
redis.call(ARGV[3], KEYS[3], ARGV[2], ARGV[4])
if not KEYS[4] or redis.call('SET', KEYS[4], 1, 'NX', 'EX', 86400) then
  add(KEYS[1], KEYS[2], tonumber(ARGV[5]), ARGV[6], ARGV[7], ARGV[8])
end
"""
)  # fmt: skip
"""Add to an account (now, me, how to count streams of mine, and how many, at, requests, tokens,
dollars), which is told what it held for the day and the month where it has forgotten that; what a
debt's key names, once."""

ENTER = (
    _NOW + """
local kept = redis.call('HMGET', KEYS[1], 'failures', 'until', 'kind', 'message', 'probe')
if not kept[1] then return {} end
local open_until = tonumber(kept[2] or '0')
local probe = tonumber(kept[5] or '0')
local left = open_until - now
if open_until > 0 and probe > 0 and left <= 0 then
  redis.call('HSET', KEYS[1], 'until', string.format('%.6f', now + probe))
end
local rest = string.format('%.6f', math.max(0, left))
return {tonumber(kept[1]), rest, kept[3] or '', kept[4] or '', kept[5] or '0'}
"""
)  # fmt: skip
"""Return the circuit of a target (now); half open, the attempts after this one wait."""

FAIL = (
    _NOW + f"""
local failures = redis.call('HINCRBY', KEYS[1], 'failures', ARGV[2])
local life = math.ceil(math.max({FAILING_SECONDS}, ARGV[4]))
if failures >= tonumber(ARGV[3]) then
  local open_until = string.format('%.6f', now + ARGV[4])
  redis.call('HSET', KEYS[1], 'until', open_until, 'kind', ARGV[5], 'message', ARGV[6])
  redis.call('HSET', KEYS[1], 'probe', ARGV[7])
end
redis.call('EXPIRE', KEYS[1], life)
"""
)  # fmt: skip
"""Record a failed attempt (now, calls to count, threshold, rest, kind, message, probe)."""
