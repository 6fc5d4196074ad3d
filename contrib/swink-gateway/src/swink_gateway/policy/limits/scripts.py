"""Lua scripts that Redis runs atomically; the scripts implement the rules of the module `account`.

The first argument of a script is the time, for tests; if it is empty, the clock of the server is
used, which all processes share. In the descriptions below, "me" is the id of the calling process.
"""

from __future__ import annotations

from swink_gateway.policy.limits.ledger import MOST_AHEAD_SECONDS, WINDOW_SECONDS

__all__ = [
    "ADMIT",
    "ALIVE_SECONDS",
    "ALL",
    "CHANGES",
    "CHARGE",
    "ENTER",
    "FAIL",
    "GRACE_SECONDS",
    "LOOK",
    "MARK",
]

ALIVE_SECONDS = 15
"""A process counts as running until this many seconds after its last report."""

GRACE_SECONDS = 5
"""For this many seconds after Redis has lost its data, an unknown key is not treated as new."""

CHANGED_SECONDS = 60
"""How many seconds a change of an account stays in the list that processes read."""

MONTH_SECONDS = 32 * 86400

PAID_SECONDS = 86400
"""How many seconds the mark of a charge stays if its process does not delete it."""

FAILING_SECONDS = 3600
"""How many seconds failures are remembered; longer if the cooldown of the target is longer."""

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

# `sign` returns the running processes, as the keys of a table, and their number.
_SIGN = f"""
local function sign(members, me)
  redis.call('ZADD', members, now, me)
  redis.call('ZREMRANGEBYSCORE', members, '-inf', now - {ALIVE_SECONDS})
  redis.call('EXPIRE', members, {2 * ALIVE_SECONDS})
  local alive, number = {{}}, 0
  for i, name in ipairs(redis.call('ZRANGE', members, 0, -1)) do
    alive[name], number = true, i
  end
  return alive, number
end
"""

_TAKEN = f"""
local function taken(alive, seconds, dollars, streams)
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
    if alive[counts[i]] then
      under_way = under_way + counts[i + 1]
    elseif counts[i + 1] == '0' then
      redis.call('HDEL', streams, counts[i])
    end
  end
  local paid = redis.call('HMGET', dollars, periods(now))
  return {{sums.r, sums.t, under_way, tonumber(paid[1] or '0'), tonumber(paid[2] or '0'),
    (oldest or first) + {WINDOW_SECONDS + 1}}}
end
local function told(row)
  return {{row[1], row[2], row[3], string.format('%.17g', row[4]), string.format('%.17g', row[5]),
    row[6], string.format('%.6f', now)}}
end
"""

# Lists with the five numbers of an account are in the order of `taken`. Other processes' leases
# count as used.
_HELD = """
local function held(alive, leases, me)
  local sums, allowance, kept = {0, 0, 0, 0, 0}, nil, redis.call('HGETALL', leases)
  for i = 1, #kept, 2 do
    if kept[i] == 'allowance' then
      allowance = cjson.decode(kept[i + 1])
    elseif not alive[kept[i]] then
      redis.call('HDEL', leases, kept[i])
    elseif kept[i] ~= me then
      local a, b, c, d, e = struct.unpack('ddddd', kept[i + 1])
      sums = {sums[1] + a, sums[2] + b, sums[3] + c, sums[4] + d, sums[5] + e}
    end
  end
  return sums, allowance
end
local function exact(numbers)
  for j = 1, 5 do numbers[j] = string.format('%.17g', numbers[j]) end
  return numbers
end
"""

# A budget has an id, which is lost together with it. `known` is a process's memory of a budget: the
# id, the time at which it was read, and the dollars of that day and month. If Redis has another id,
# or none, it has lost the budget since then. The budget is restored: the greatest amount that any
# process remembers is added to the charges after the loss. If a budget of this month is in the
# index but missing, its key is refused until a process that remembers it calls a script.
_BUDGET = f"""
local function restore(dollars, period, amount)
  local so_far = tonumber(redis.call('HGET', dollars, 'restored:' .. period) or '0')
  if amount > so_far then
    redis.call('HINCRBYFLOAT', dollars, period, string.format('%.17g', amount - so_far))
    redis.call('HSET', dollars, 'restored:' .. period, string.format('%.17g', amount))
  end
end
local function budget(budgets, dollars, name, me, known, is_limited)
  local id = redis.call('HGET', dollars, 'id')
  if id and (known[1] == '' or known[1] == id) then return id end
  if not id and known[1] == '' and is_limited then
    local expected = redis.call('HGET', budgets, 'key:' .. name)
    local _, month = periods(now)
    local lost_at = tonumber(redis.call('HGET', budgets, 'lost') or '0')
    local is_new = redis.call('EXISTS', dollars) == 0 and math.abs(now - lost_at) < {GRACE_SECONDS}
    if (expected and string.sub(expected, 1, 7) == month) or is_new then return '' end
  end
  if not id then
    id = string.format('%s:%d.%06d', me, time[1], time[2])
    redis.call('HSET', dollars, 'id', id)
    redis.call('PERSIST', dollars)
  end
  if known[1] ~= '' then
    local day, month = periods(tonumber(known[2]))
    restore(dollars, day, tonumber(known[3]))
    restore(dollars, month, tonumber(known[4]))
  end
  return id
end
"""

_ADD = f"""
local function add(budgets, name, seconds, dollars, at, requests, tokens, paid)
  local second = string.format('%d', math.floor(at))
  redis.call('HINCRBY', seconds, 'r' .. second, requests)
  redis.call('HINCRBY', seconds, 't' .. second, tokens)
  redis.call('EXPIRE', seconds, {2 * WINDOW_SECONDS})
  if tonumber(paid) ~= 0 then
    local day, month = periods(at)
    redis.call('HINCRBYFLOAT', dollars, day, paid)
    redis.call('HINCRBYFLOAT', dollars, month, paid)
    redis.call('HSET', budgets, 'key:' .. name, day)
    redis.call('PERSIST', dollars)
  end
end
"""

LOOK = (
    _NOW + _PERIODS + _SIGN + _TAKEN + _HELD + _BUDGET + f"""
local alive, members = sign(KEYS[1], ARGV[2])
local rows = {{members}}
for i = 3, #KEYS, 4 do
  local first = 3 + (i - 3) / 4 * 10
  local others, allowance = held(alive, KEYS[i + 3], ARGV[2])
  local is_limited = allowance and (tonumber(allowance[4]) or tonumber(allowance[5]))
  local known = {{ARGV[first + 1], ARGV[first + 2], ARGV[first + 3], ARGV[first + 4]}}
  local id = budget(KEYS[2], KEYS[i + 1], ARGV[first], ARGV[2], known, is_limited)
  local row = taken(alive, KEYS[i], KEYS[i + 1], KEYS[i + 2])
  local lease, kept = {{0, 0, 0, 0, 0}}, {{}}
  for j = 1, 5 do
    local limit = allowance and tonumber(allowance[j])
    if limit and id ~= '' then
      local left = limit - row[j]
      lease[j] = math.max(0, math.min(left / (2 * members), left - others[j]))
    end
    kept[j] = math.max(lease[j], tonumber(ARGV[first + 4 + j]))
  end
  if allowance then
    redis.call('HSET', KEYS[i + 3], ARGV[2], struct.pack('ddddd', unpack(kept)))
    redis.call('EXPIRE', KEYS[i + 3], {MONTH_SECONDS})
  end
  rows[#rows + 1] = {{told(row), exact(lease), id}}
end
return rows
"""
)  # fmt: skip
"""Report the leases of a process, and return new ones.

Arguments: now, me, and for each account its name, what the process remembers of the budget, and the
five numbers of the lease. Result: the number of processes, and for each account the amounts used,
the new lease, and the id of the budget (empty: the budget is lost).
"""

ADMIT = (
    _NOW + _PERIODS + _SIGN + _TAKEN + _HELD + _BUDGET + _ADD + f"""
local alive, members = sign(KEYS[1], ARGV[2])
local begins = tonumber(ARGV[10])
local known = {{ARGV[12], ARGV[13], ARGV[14], ARGV[15]}}
local is_limited = tonumber(ARGV[8]) or tonumber(ARGV[9])
local id = budget(KEYS[6], KEYS[3], ARGV[11], ARGV[2], known, is_limited)
local row = taken(alive, KEYS[2], KEYS[3], KEYS[4])
local others = held(alive, KEYS[5], ARGV[2])
local admitted, room = 1, {{}}
local more = {{begins, ARGV[3], begins, ARGV[4], ARGV[4]}}
for i = 1, 5 do
  local limit = tonumber(ARGV[4 + i])
  local counts = limit and (begins == 1 or i > 3)
  if counts and row[i] >= limit then
    admitted = 0
  elseif counts and admitted == 1 and row[i] + others[i] >= limit then
    admitted = -1
  end
  room[i] = limit and limit - row[i] - more[i] - others[i] or math.huge
end
if id == '' then
  admitted = -2
  redis.call('ZADD', KEYS[8], now, ARGV[11])
else -- even if the attempt is refused: a lowered limit must reduce the leases
  redis.call('HSET', KEYS[5], 'allowance', cjson.encode({{unpack(ARGV, 5, 9)}}))
end
if admitted == 1 and redis.call('SET', KEYS[9], 1, 'NX', 'EX', {PAID_SECONDS}) then
  redis.call('ZADD', KEYS[7], now, ARGV[11])
  local day, month = periods(now)
  for _, name in ipairs(redis.call('HKEYS', KEYS[3])) do
    local period = string.gsub(name, 'restored:', '')
    if name ~= 'id' and period ~= day and period ~= month then
      redis.call('HDEL', KEYS[3], name)
    end
  end
  add(KEYS[6], ARGV[11], KEYS[2], KEYS[3], now, begins, ARGV[3], ARGV[4])
  redis.call('HINCRBY', KEYS[4], ARGV[2], begins)
  redis.call('EXPIRE', KEYS[4], 86400)
elseif admitted == -1 then
  redis.call('ZADD', KEYS[8], now, ARGV[11])
  for i = 1, 5 do row[i] = row[i] + (i < 4 and math.ceil(others[i]) or others[i]) end
end
return {{admitted, members, told(row), exact(room), id}}
"""
)  # fmt: skip
"""Reserve an attempt, or refuse it.

Arguments: now, me, tokens, dollars, the five limits, whether a call begins, the key's name, and
what the process remembers of the budget. The last Redis key is the mark of this reservation, which
is made only once. Result: 1 if it was admitted, 0 if a limit is reached, -1
if a limit is reached because of other processes' leases, -2 if the budget is lost; the number of
processes; the amounts used by the account before (with -1, including the leases of others); the
largest lease that this process may have now; and the id of the budget.
"""

CHARGE = (
    _NOW + _PERIODS + _BUDGET + _ADD + f"""
local known = {{ARGV[10], ARGV[11], ARGV[12], ARGV[13]}}
budget(KEYS[4], KEYS[2], ARGV[9], ARGV[2], known, true)
local is_new = redis.call('SET', KEYS[6], 1, 'NX', 'EX', {PAID_SECONDS})
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[3], ARGV[2], ARGV[3])
elseif is_new and redis.call('HINCRBY', KEYS[3], ARGV[2], 0 - ARGV[4]) < 0 then
  redis.call('HSET', KEYS[3], ARGV[2], 0)
end
redis.call('ZADD', KEYS[5], now, ARGV[9])
if is_new then
  add(KEYS[4], ARGV[9], KEYS[1], KEYS[2], tonumber(ARGV[5]), ARGV[6], ARGV[7], ARGV[8])
end
"""
)  # fmt: skip
"""Add a charge to an account.

Arguments: now, me, this process's number of concurrent answers (empty: unchanged, except for
answers that end), the number of answers that end, the time, requests, tokens, dollars, the key's
name, and what the process remembers of the budget. The last Redis key is the mark of this charge,
which is added only once.
"""

CHANGES = (
    _NOW + f"""
local found = {{string.format('%.6f', now)}}
for i = 1, 2 do
  redis.call('ZREMRANGEBYSCORE', KEYS[i], '-inf', now - {CHANGED_SECONDS})
  found[i + 1] = redis.call('ZRANGEBYSCORE', KEYS[i], ARGV[2], '+inf')
end
return found
"""
)  # fmt: skip
"""Return the keys that have changed.

Arguments: now, since. Result: the current time, the keys whose accounts have changed since that
time, and the keys for whose leases other processes wait.
"""

MARK = (
    _NOW + """
if redis.call('HSETNX', KEYS[1], 'mark', ARGV[2]) == 0 then
  return redis.call('HGET', KEYS[1], 'mark')
end
if ARGV[3] == '1' then redis.call('HSET', KEYS[1], 'lost', string.format('%.6f', now)) end
return ARGV[2]
"""
)  # fmt: skip
"""Set the mark that disappears if Redis loses its data, unless it is set, and return it.

Arguments: now, a new mark, and whether this process has read a mark before.
"""

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
"""Return the circuit breaker of a target.

Argument: now. If the circuit is half open, this attempt is admitted, and later attempts wait for
its outcome.
"""

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
"""Record a failed attempt.

Arguments: now, the number of calls to count, threshold, cooldown in seconds, kind, message, probe.
"""

ALL = (CHANGES, LOOK, ADMIT, CHARGE, MARK, ENTER, FAIL)
"""All scripts."""
