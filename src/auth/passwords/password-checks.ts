/** Checks passwords: at once, with pauses, or slowly, depending on recent failures from the client's network. */
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

/** Refuses a bad password after too many failures from its network. For a while, passwords from there are checked slowly. */
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
  /** Failures from one network address, after which each bad password from it is followed by a pause. */
  beforePauses: ThrottleLimits
  /** Maximum number of attempts that wait for a check with pauses, of all networks together. */
  waitingWithPauses: number
  /** The rate of checks of passwords from one network address after too many failures. */
  afterwards: PaceLimits
}

const FIVE_MINUTES_MS = 5 * 60_000

export const SIGN_IN_LIMITS: SignInLimits = {
  perName: { failures: 10, windowMs: FIVE_MINUTES_MS },
  perAddress: { failures: 100, windowMs: FIVE_MINUTES_MS },
  beforePauses: { failures: 3, windowMs: FIVE_MINUTES_MS },
  waitingWithPauses: 2000,
  afterwards: { everyMs: 500, waiting: 20 },
}

/** The queue of slow checks: five minutes of bad passwords. After that time a waiting client is below the limit again. */
const WAITING_SLOWLY = { waiting: 600, waitingShare: 2 }

export interface Attempt {
  password: string
  /** The stored password hash of the account with this name. */
  hash: string
  /** The login or the e-mail address as it was typed, in lower case. */
  nameKey: string
  /** The client's network, by `networkOf`. */
  network: string
}

interface PasswordChecks {
  /**
   * Whether the password is correct. Concurrent equal attempts of one network share a check. `key` is equal for equal
   * name, password and hash.
   * @throws Throttled for a bad one after too many failures, and SlotsFull when the queue is full
   */
  check(key: string, attempt: Attempt): Promise<boolean>
  /** One check at a time per network, so that one network cannot take all slots. */
  withNetworkLock: RunExclusive
}

/** Creates the checks of one server, with its counts of failures. */
export function createPasswordChecks(limits: SignInLimits): PasswordChecks {
  const nameFailures = createThrottle(limits.perName)
  const addressFailures = createThrottle(limits.perAddress)
  const pace = createPace(limits.afterwards)
  const guessers = createGuessers(limits.beforePauses)
  // Many networks that guess together share one queue, and so a part of a core.
  const waiting = limits.waitingWithPauses
  const withPauses = createThrottledChecks({ name: 'password_checks', waiting, waitingShare: waiting })
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

  /** Counts a wrong or running check as a failure. */
  async function checkCounted(nameAtNetwork: string, network: string, isRight: () => Promise<boolean>) {
    const guesser = guessers.with(network)
    const forgive = [
      nameFailures.attempt(nameAtNetwork),
      addressFailures.attempt(network),
      guessers.attempt(network),
    ]
    let isBad = false
    try {
      const checking =
        guesser === undefined ? withNetworkLock(network, isRight) : withPauses(guesser, isRight)
      isBad = !(await checking)
      return !isBad
    } finally {
      if (!isBad) for (const undo of forgive) undo()
    }
  }

  /** Returns false also for an unchecked password, because too many wait. */
  async function checkSlowly(network: string, isRight: () => Promise<boolean>): Promise<boolean> {
    if (!(await pace.slot(network))) return false
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
