/** What git itself checks and refuses in a push. */

import { UNPACK_LIMIT } from '../objects/small-pack.ts'
import type { GitConfig } from '../process/environment.ts'

/** Harmless faults that well-known old histories have. Commits with these faults may be pushed. */
const HARMLESS_FAULTS = [
  'badDateOverflow',
  'badEmail',
  'badName',
  'badTimezone',
  'missingEmail',
  'missingNameBeforeEmail',
  'missingSpaceBeforeDate',
  'missingSpaceBeforeEmail',
  'multipleAuthors',
  'zeroPaddedDate',
  'zeroPaddedFilemode',
]

/** The configuration of git for pushes. */
export const RECEIVE_CONFIG: GitConfig = [
  // Clients may fetch the refs of pull requests, but only the server moves them.
  ['receive.hideRefs', 'refs/pull/'],
  ['receive.advertisePushOptions', 'true'],
  ['receive.denyDeleteCurrent', 'refuse'],
  // Refuse malformed commits and trees, and objects that attack the clients that fetch them.
  ['receive.fsckObjects', 'true'],
  ...HARMLESS_FAULTS.map((fault) => [`receive.fsck.${fault}`, 'ignore'] as const),
  ['receive.unpackLimit', `${UNPACK_LIMIT}`],
]

/** For packs of which only an index tells on what their deltas build. */
export const INDEX_ALWAYS: GitConfig = [['receive.unpackLimit', '1']]
