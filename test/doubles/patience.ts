/**
 * For tests in which the doubles are there all the time: on a busy machine they may take seconds to answer, and that is
 * not an outage. What happens when a server is away is tested with the limits of the product.
 */

/** The double's connection string, with time limits that end no test. */
export const patientEventStore = ({ url }: { url: string }): string =>
  `${url}&defaultDeadline=60000&keepAliveTimeout=60000`

/** The same for MongoDB's double; these are the longest times that the product allows. */
export const patientMongo = ({ url }: { url: string }): string =>
  `${url}/?serverSelectionTimeoutMS=15000&connectTimeoutMS=15000&waitQueueTimeoutMS=30000`
