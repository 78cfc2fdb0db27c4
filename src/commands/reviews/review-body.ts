/** Parses a review from a client, and adds facts from git. */
import { type Static, Type } from 'typebox'
import { Refused, refuse } from '../../errors/refusal.ts'
import { idsStream } from '../../events/streams.ts'
import { isAncestor } from '../../git/commits/history.ts'
import { type DiffLine, lineHunks } from '../../git/diff/line-hunks.ts'
import { GitFailed, GitTooSlow } from '../../git/process/errors.ts'
import type { GitSlot } from '../../git/process/limits.ts'
import { isObjectId } from '../../git/refs/names.ts'
import type { PullDocument } from '../../projections/models/pull-requests/pulls.fold.ts'
import { gitDirOf, type Services } from '../../services/services.ts'
import type { CommandContext } from '../execution/command-context.ts'
import { takeNumbers } from '../execution/sequences.ts'
import { TextOf } from '../execution/text-schema.ts'
import { MAX_LINE_COMMENTS, type NewComment, type NewReview } from './review.decider.ts'

const MAX_PATH = 4096
const MAX_LINE = 2 ** 31 - 1
const LineNumber = Type.Integer({ minimum: 0, maximum: MAX_LINE })

export const CreateReviewOptions = (services: Services) =>
  Type.Object(
    {
      body: Type.Optional(TextOf(services)),
      event: Type.Optional(
        Type.String({ description: 'APPROVED, REQUEST_CHANGES, COMMENT or PENDING (default)' }),
      ),
      commit_id: Type.Optional(
        Type.String({ description: 'Id of the reviewed commit; default: that of the draft, or the head' }),
      ),
      comments: Type.Optional(
        Type.Array(
          Type.Object({
            path: Type.String({ maxLength: MAX_PATH }),
            body: TextOf(services),
            new_position: Type.Optional(LineNumber),
            old_position: Type.Optional(LineNumber),
          }),
          { maxItems: MAX_LINE_COMMENTS },
        ),
      ),
    },
    { title: 'CreatePullReviewOptions' },
  )
type Options = Static<ReturnType<typeof CreateReviewOptions>>

/** Runs a query to git in a slot of the client. */
type Ask = <T>(answer: (slot: GitSlot) => Promise<T>) => Promise<T>

const unprocessable = (problem: string) => new Refused(refuse.unprocessable(problem))

/** Parses the review and takes its ids. @throws Refused (unprocessable) with the field */
export async function reviewFromBody(
  services: Services,
  context: CommandContext,
  pull: PullDocument,
  { body, commit_id, comments }: Options,
  ask: Ask,
): Promise<NewReview> {
  const { actor } = context
  if (actor === null) throw new Refused(refuse.unauthenticated('sign in first'))
  const dir = gitDirOf(services, pull.repoId)
  const commit = await reviewedCommit(dir, pull, commit_id ?? '')
  const lines = (comments ?? []).map((comment, i) => ({ ...lineOf(comment, i), body: comment.body }))
  const commits = { from: pull.mergeBase, to: commit }
  const hunks = await hunksOf(services, commits, lines, (wanted) =>
    ask((slot) => lineHunks(dir, commits, wanted, slot)),
  )
  const [reviewId = 0, ...ids] = await takeNumbers(services, context, idsStream('comment'), 1 + lines.length)
  return {
    reviewId,
    reviewer: { id: actor.id, login: actor.login },
    body: body ?? '',
    commit,
    comments: lines.map(
      (line, i): NewComment => ({
        ...line,
        commentId: ids[i] ?? 0,
        commit,
        base: pull.mergeBase,
        hunk: hunks[i] ?? '',
      }),
    ),
  }
}

/** Returns the reviewed commit: the head, or an earlier commit of the branch. @throws Refused (unprocessable) */
async function reviewedCommit(dir: string, { head }: PullDocument, wanted: string): Promise<string> {
  const commit = wanted.trim().toLowerCase()
  if (commit === '' || commit === head.sha) return head.sha
  const isOne = isObjectId(commit) && (await isAncestor(dir, commit, head.sha).catch(falseIfUnknown))
  if (!isOne) throw unprocessable('commit_id: is not a commit of this pull request')
  return commit
}

function falseIfUnknown(error: unknown): false {
  if (error instanceof GitFailed) return false
  throw error
}

/** Returns the line of a comment. @throws Refused (unprocessable) */
function lineOf(
  { path, body, new_position, old_position }: NonNullable<Options['comments']>[number],
  i: number,
): DiffLine {
  const isValid =
    !path.includes('\0') && path.split('/').every((part) => part !== '' && part !== '.' && part !== '..')
  if (!isValid) throw unprocessable(`comments[${i}].path: is not the path of a file`)
  if (body.trim() === '') throw unprocessable(`comments[${i}].body: must not be empty`)
  const old = old_position ?? 0
  return old > 0 ? { path, side: 'old', line: old } : { path, side: 'new', line: new_position ?? 0 }
}

/** Returns the diff around the lines. A failure leaves them empty, so that the comments are not lost. */
async function hunksOf(
  { log }: Services,
  commits: { from: string; to: string },
  lines: readonly DiffLine[],
  read: (lines: readonly DiffLine[]) => Promise<readonly string[]>,
): Promise<readonly string[]> {
  if (lines.length === 0) return []
  return await read(lines).catch((error: unknown) => {
    if (!(error instanceof GitFailed || error instanceof GitTooSlow)) throw error
    log.warn({ err: error, ...commits }, 'cannot read the lines around comments of a review')
    return []
  })
}
