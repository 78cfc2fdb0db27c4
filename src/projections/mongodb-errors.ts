/** The errors of MongoDB's driver: which are temporary, and which are expected. */
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

const DUPLICATE_KEY = 11000
export const NAMESPACE_NOT_FOUND = 26
export const INDEX_NOT_FOUND = 27

/** The server runs, but cannot answer now: too slow, shutting down, not the primary, disk full. */
const TEMPORARY_CODES = new Set([
  6, 7, 50, 64, 89, 91, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436, 14031,
])

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

/** Whether the server cannot be reached or cannot answer now, so that the client may try again. */
export function isUnavailable(error: unknown): boolean {
  // A bulk write wraps the error that broke its connection.
  if (error instanceof MongoBulkWriteError && error.errorResponse instanceof Error) {
    return isUnavailable(error.errorResponse)
  }
  if (UNREACHABLE.some((kind) => error instanceof kind)) return true
  return (
    error instanceof MongoError &&
    (UNREACHABLE_NAMES.has(error.name) ||
      TEMPORARY_CODES.has(Number(error.code)) ||
      error.hasErrorLabel('RetryableWriteError'))
  )
}

/** The index of the operation that stopped an ordered bulk write because its document already exists. */
export function duplicateAt(error: unknown): number | undefined {
  if (!(error instanceof MongoBulkWriteError)) return undefined
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
