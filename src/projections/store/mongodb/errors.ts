/** Classifies the errors of MongoDB's driver. */
import {
  MongoBulkWriteError,
  MongoClientClosedError,
  MongoError,
  MongoExpiredSessionError,
  MongoNetworkError,
  MongoNotConnectedError,
  MongoServerClosedError,
  MongoServerError,
  MongoServerSelectionError,
  MongoTopologyClosedError,
  MongoWriteConcernError,
} from 'mongodb'

export const DUPLICATE_KEY = 11000
export const NAMESPACE_NOT_FOUND = 26
export const INDEX_NOT_FOUND = 27

/**
 * Codes of temporary failures, named as in MongoDB's `error_codes.yml`. The write may have happened; repeating it is
 * harmless.
 */
const TEMPORARY_CODES = new Set([
  6, // HostUnreachable
  7, // HostNotFound
  24, // LockTimeout
  50, // MaxTimeMSExpired
  64, // WriteConcernTimeout: the write is there, but not yet on most members
  79, // UnknownReplWriteConcern
  89, // NetworkTimeout
  91, // ShutdownInProgress
  100, // UnsatisfiableWriteConcern: too few members that hold data
  112, // WriteConflict
  133, // FailedToSatisfyReadPreference
  134, // ReadConcernMajorityNotAvailableYet
  143, // CursorInUse
  189, // PrimarySteppedDown
  202, // NetworkInterfaceExceededTimeLimit
  215, // DatabaseDropPending
  216, // ElectionInProgress
  262, // ExceededTimeLimit
  // QueryExceededMemoryLimitNoDiskUseAllowed: our queries allow the disk, but some services lack it. The client gets
  // 503 for this list instead of 500.
  292,
  365, // TemporarilyUnavailable: too much work at once
  371, // UserWritesBlocked: the operator is moving the data
  402, // ResourceExhausted
  407, // PooledConnectionAcquisitionExceededTimeLimit
  433, // AdmissionQueueOverflow
  449, // RateLimitExceeded
  9001, // SocketException
  10058, // LegacyNotPrimary
  10107, // NotWritablePrimary
  11600, // InterruptedAtShutdown
  11601, // Interrupted
  11602, // InterruptedDueToReplStateChange
  13435, // NotPrimaryNoSecondaryOk
  13436, // NotPrimaryOrSecondary
  14031, // OutOfDiskSpace
])

/** Codes of a read interrupted by another call: its cursor, collection or index was dropped. */
const INTERRUPTED_READ_CODES = new Set([
  43, // CursorNotFound
  175, // QueryPlanKilled
  237, // CursorKilled
])

const UNAUTHORIZED = 13
/** The user lacks the permission: Unauthorized, AuthenticationFailed, and the code of Atlas for both. */
const DENIED_CODES = new Set([UNAUTHORIZED, 18, 8000])

const UNREACHABLE = [
  MongoNetworkError,
  MongoServerSelectionError,
  MongoNotConnectedError,
  MongoTopologyClosedError,
  MongoClientClosedError,
  MongoServerClosedError,
  MongoExpiredSessionError,
  MongoWriteConcernError,
]

/** Errors of the connection pool. The driver does not export their classes. */
const UNREACHABLE_NAMES = new Set(['MongoWaitQueueTimeoutError', 'MongoPoolClosedError'])

/** Whether the server is unreachable or cannot answer now, so that the client may retry. */
export function isUnavailable(error: unknown): boolean {
  // Errors of the connection string's files and of the name service are not the driver's.
  if (error instanceof Error && 'syscall' in error) return true
  // A bulk write wraps the error that broke its connection.
  if (error instanceof MongoBulkWriteError && error.errorResponse instanceof Error) {
    return isUnavailable(error.errorResponse)
  }
  if (UNREACHABLE.some((kind) => error instanceof kind)) return true
  return (
    error instanceof MongoError &&
    (UNREACHABLE_NAMES.has(error.name) ||
      TEMPORARY_CODES.has(Number(error.code)) ||
      isInterruptedRead(error) ||
      isDenied(error) ||
      error.hasErrorLabel('RetryableWriteError'))
  )
}

/** Whether the same read may succeed when it is repeated. The driver does not repeat it. */
export function isInterruptedRead(error: unknown): boolean {
  return error instanceof MongoError && INTERRUPTED_READ_CODES.has(Number(error.code))
}

/** Whether MongoDB refuses the user. */
function isDenied(error: unknown): boolean {
  return error instanceof MongoError && DENIED_CODES.has(Number(error.code))
}

/**
 * Returns what MongoDB denies to the user, and a remedy; undefined for any other error. Omits the command's data, which
 * may be secret.
 */
export function denial(error: unknown): string | undefined {
  if (!(error instanceof MongoError) || !isDenied(error)) return undefined
  if (error.code !== UNAUTHORIZED) {
    return 'MongoDB does not know the user of MONGODB_URL, or the password is wrong; a user of another database needs authSource'
  }
  if (/requires authentication/.test(error.message)) {
    return 'MongoDB wants a user: put one into MONGODB_URL, as mongodb://user:password@host'
  }
  const [, database, command] =
    /not authorized on (\S+) to execute command \{ ?"?(\w+)/.exec(error.message) ?? []
  const what = command === undefined ? 'this' : `the command ${command} in the database ${database}`
  return `MongoDB does not allow the user of MONGODB_URL ${what}: give it the role readWrite on its database and on the one of the secrets`
}

/** Returns the index of the operation that stopped an ordered bulk write because its document already exists. */
export function duplicateAt(error: unknown): number | undefined {
  if (!(error instanceof MongoBulkWriteError)) return undefined
  // The earlier writes must be on most members, too.
  if (error.result.getWriteConcernError() !== undefined) return undefined
  const [first] = [error.writeErrors].flat()
  return first?.code === DUPLICATE_KEY ? first.index : undefined
}

/** For `catch`: returns `answer` for the error with this code, and throws every other error. */
export function unless<T>(code: number, answer: T): (error: unknown) => T {
  return (error) => {
    if (error instanceof MongoServerError && error.code === code) return answer
    throw error
  }
}
