/** How passwords are checked: at once, with rests, or slowly, by how many bad ones came from there lately. */
import { coalesce } from '../../concurrency/coalesce.ts'
import { createKeyedMutex, type RunExclusive } from '../../concurrency/keyed-mutex.ts'
import { SlotsFull } from '../../concurrency/semaphore.ts'
import { limitReached } from '../../errors/limits.ts'
import { Refused, refuse } from '../../errors/refusal.ts'
import { createGuessers } from './guessers.ts'
import { isPassword } from './passwords.ts'
import {
  createPace,
  createThrottle,
  createThrottledChecks,
  type PaceLimits,
  type ThrottleLimits,
} from './throttle.ts'

/** Too many bad passwords: for a while, passwords from there are checked slowly, and a bad one gets this answer. */
export class Throttled extends Refused {
  readonly retryAfterSeconds: number

  constructor(retryAfterSeconds: number) {
    super(refuse.tooManyRequests('too many failed sign-ins; try again later'))
    limitReached('sign_in_failures')
    this.retryAfterSeconds = retryAfterSeconds
  }
}

export interface SignInLimits {
  /**
   * Failures per name and network. A name is a login or e-mail address as typed: counting per account would reveal
   * the owner of an address. An account therefore has this limit for each of its names.
   */
  perName: ThrottleLimits
  /** Failures from one network address, for all names together. */
  perAddress: ThrottleLimits
  /** Failures from one network address, after which its passwords are checked with rests after the bad ones. */
  withoutRests: ThrottleLimits
  /** How many may wait for a check with rests, of all networks together. */
  waitingForRests: number
  /** How fast passwords from one network address are checked after too many failures. */
  afterwards: PaceLimits
}

const FIVE_MINUTES_MS = 5 * 60_000

export const SIGN_IN_LIMITS: SignInLimits = {
  perName: { failures: 10, windowMs: FIVE_MINUTES_MS },
  perAddress: { failures: 100, windowMs: FIVE_MINUTES_MS },
  withoutRests: { failures: 3, windowMs: FIVE_MINUTES_MS },
  waitingForRests: 2000,
  afterwards: { everyMs: 500, waiting: 20 },
}

/** Five minutes of bad passwords; then a waiting client is no longer over the limit. */
const WAITING_SLOWLY = { waiting: 600, waitingShare: 2 }

export interface Attempt {
  password: string
  /** The stored hash of the password of whom the name stands for. */
  hash: string
  /** The login or the e-mail address as it was typed, in lower case. */
  nameKey: string
  /** Where it comes from, as `networkOf` names it. */
  network: string
}

interface PasswordChecks {
  /**
   * Whether the password is correct. Concurrent equal attempts of one network share a check. `key` is equal for equal
   * name, password and hash.
   * @throws Throttled for a bad one after too many others, and SlotsFull when the queue is full
   */
  check(key: string, attempt: Attempt): Promise<boolean>
  /** One check at a time per network, so that one network cannot take all slots. */
  withNetworkLock: RunExclusive
}

/** One for each server: it keeps the failures. */
export function createPasswordChecks(limits: SignInLimits): PasswordChecks {
  const nameFailures = createThrottle(limits.perName)
  const addressFailures = createThrottle(limits.perAddress)
  const pace = createPace(limits.afterwards)
  const guessers = createGuessers(limits.withoutRests)
  // Many networks that guess together don't take a processor.
  const waiting = limits.waitingForRests
  const withRests = createThrottledChecks({ name: 'password_checks', waiting, waitingShare: waiting })
  const slowly = createThrottledChecks({ name: 'password_checks', ...WAITING_SLOWLY })
  const withNetworkLock = createKeyedMutex()
  const checks = coalesce<boolean>()

  /**
   * After too many failures, checks continue slowly, because another user behind the address may have the correct
   * password. A bad one then gets the same answer as an unchecked one.
   */
  async function checkNow({ password, hash, nameKey, network }: Attempt): Promise<boolean> {
    const nameAtNetwork = JSON.stringify([network, nameKey])
    const wait = addressFailures.blockedFor(network) ?? nameFailures.blockedFor(nameAtNetwork)
    const isRight = () => isPassword(password, hash)
    if (wait === undefined) return checkCounted(nameAtNetwork, network, isRight)
    if (await checkSlowly(network, isRight)) return true
    throw new Throttled(wait)
  }

  /** A wrong or running check counts as a failure. */
  async function checkCounted(nameAtNetwork: string, network: string, isRight: () => Promise<boolean>) {
    const guesser = guessers.with(network)
    const forgive = [
      nameFailures.attempt(nameAtNetwork),
      addressFailures.attempt(network),
      guessers.attempt(network),
    ]
    let isBad = false
    try {
      const checking = guesser === undefined ? withNetworkLock(network, isRight) : withRests(guesser, isRight)
      isBad = !(await checking)
      return !isBad
    } finally {
      if (!isBad) for (const undo of forgive) undo()
    }
  }

  /** False also for one that is not checked, because too many wait. */
  async function checkSlowly(network: string, isRight: () => Promise<boolean>): Promise<boolean> {
    if (!(await pace.turn(network))) return false
    return slowly(guessers.with(network) ?? network, isRight).catch((error: unknown) => {
      if (error instanceof SlotsFull) return false
      throw error
    })
  }

  return {
    check: (key, attempt) => checks(`${attempt.network} ${key}`, () => checkNow(attempt)),
    withNetworkLock,
  }
}
