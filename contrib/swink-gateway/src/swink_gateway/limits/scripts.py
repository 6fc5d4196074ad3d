"""What Redis runs in one step: the rules of `account`, in Lua, by Redis's own clock.

Each begins with the time that a test gives, or nothing: the clock of the server is the same for
all who ask.
"""

from __future__ import annotations

from swink_gateway.limits.ledger import WINDOW_SECONDS

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
    if at < first then
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
    else
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
    redis.call('EXPIRE', dollars, {MONTH_SECONDS})
  end
end
"""

LOOK = (
    _NOW + _PERIODS + _SIGN + _TAKEN + """
sign(KEYS[1], ARGV[2])
local rows = {redis.call('ZCARD', KEYS[1])}
for i = 2, #KEYS, 3 do
  rows[#rows + 1] = told(taken(KEYS[1], KEYS[i], KEYS[i + 1], KEYS[i + 2]))
end
return rows
"""
)  # fmt: skip
"""Give a sign (now, me), and return how many there are and what each account has taken."""

ADMIT = (
    _NOW + _PERIODS + _SIGN + _TAKEN + _ADD + """
sign(KEYS[1], ARGV[2])
local row = taken(KEYS[1], KEYS[2], KEYS[3], KEYS[4])
local admitted = 1
for i = 1, 5 do
  local limit = tonumber(ARGV[5 + i])
  if limit and row[i] >= limit then admitted = 0 end
end
if admitted == 1 then
  local day, month = periods(now)
  for _, name in ipairs(redis.call('HKEYS', KEYS[3])) do
    if name ~= day and name ~= month then redis.call('HDEL', KEYS[3], name) end
  end
  add(KEYS[2], KEYS[3], now, 1, ARGV[4], ARGV[5])
  redis.call('HSET', KEYS[4], ARGV[2], ARGV[3] + 1)
  redis.call('EXPIRE', KEYS[4], 86400)
end
return {admitted, redis.call('ZCARD', KEYS[1]), told(row)}
"""
)  # fmt: skip
"""Charge a call (now, me, streams of mine, tokens, dollars, and five limits), or do not."""

CHARGE = (
    _NOW + _PERIODS + _ADD + """
local at = tonumber(ARGV[4])
local day, month = periods(now)
for i, name in ipairs({day, month}) do
  if tonumber(ARGV[7 + i]) > 0 then redis.call('HSETNX', KEYS[2], name, ARGV[7 + i]) end
end
add(KEYS[1], KEYS[2], at, ARGV[5], ARGV[6], ARGV[7])
redis.call('HSET', KEYS[3], ARGV[2], ARGV[3])
"""
)  # fmt: skip
"""Add (now, me, streams of mine, at, requests, tokens, dollars) to an account, which is told what
it held for the day and the month where it has forgotten that."""

ENTER = (
    _NOW + """
local kept = redis.call('HMGET', KEYS[1], 'failures', 'until', 'kind', 'message')
if not kept[1] then return {} end
local open_until = tonumber(kept[2] or '0')
local left = open_until - now
if open_until > 0 and left <= 0 then
  redis.call('HSET', KEYS[1], 'until', string.format('%.6f', now + ARGV[2]))
end
return {tonumber(kept[1]), string.format('%.6f', math.max(0, left)), kept[3] or '', kept[4] or ''}
"""
)  # fmt: skip
"""Return the circuit of a target; half open (now, rest), the next ones wait."""

FAIL = (
    _NOW + f"""
local failures = redis.call('HINCRBY', KEYS[1], 'failures', 1)
local life = math.ceil(math.max({FAILING_SECONDS}, ARGV[3]))
if failures >= tonumber(ARGV[2]) then
  local open_until = string.format('%.6f', now + ARGV[3])
  redis.call('HSET', KEYS[1], 'until', open_until, 'kind', ARGV[4], 'message', ARGV[5])
end
redis.call('EXPIRE', KEYS[1], life)
"""
)  # fmt: skip
"""Count a failure (now, threshold, rest, kind, message)."""
