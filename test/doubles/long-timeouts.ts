/**
 * Connection strings for tests in which the doubles are always available: on a busy machine an answer may take seconds
 * without an outage. Tests of outages use the product's limits.
 */

/** Returns the double's connection string with long timeouts. */
export const eventStoreWithLongTimeouts = ({ url }: { url: string }): string =>
  `${url}&defaultDeadline=60000&keepAliveTimeout=60000`

/** Returns that of MongoDB's double, with the longest timeouts that the product allows. */
export const mongoWithLongTimeouts = ({ url }: { url: string }): string =>
  `${url}/?serverSelectionTimeoutMS=15000&connectTimeoutMS=15000&waitQueueTimeoutMS=30000`
