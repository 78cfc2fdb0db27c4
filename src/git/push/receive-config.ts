/** The checks that git itself runs on a push. */

import { UNPACK_LIMIT } from '../objects/small-pack.ts'
import type { GitConfig } from '../process/environment.ts'

/** Harmless faults of well-known old histories, which are accepted. */
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
  // Rejects malformed commits and trees, and objects that attack clients.
  ['receive.fsckObjects', 'true'],
  ...HARMLESS_FAULTS.map((fault) => [`receive.fsck.${fault}`, 'ignore'] as const),
  ['receive.unpackLimit', `${UNPACK_LIMIT}`],
]

/** For packs whose delta bases are only known from an index. */
export const INDEX_ALWAYS: GitConfig = [['receive.unpackLimit', '1']]
