/** Builds the commit that a merge brings to the base branch, as git itself would make it. No ref moves. */
import type { MergeStyle } from '../../events/domain-events.ts'
import { commitRange } from '../../git/commit-range.ts'
import { commitFacts, type Signature } from '../../git/commits.ts'
import { isAncestor } from '../../git/history.ts'
import { type MergeResult, mergeTrees } from '../../git/merge.ts'
import { commitTree } from '../../git/new-commit.ts'
import { type RebaseResult, rebase } from '../../git/rebase.ts'
import { isRefusal, type Refusal, refuse } from '../../refusal.ts'
import { coAuthorsOf, type MessageFields, mergeMessage } from './merge-message.ts'
import type { ActivePull } from './pull-request.ts'

/** A squash names the authors of the newest commits only, at most of this many. */
const MAX_SQUASHED = 1000

interface MergeToBuild {
  style: Exclude<MergeStyle, 'manually-merged'>
  /** The tip of the base branch. */
  base: string
  fields: MessageFields
  headLabel: string
  /** The poster of the pull request: the author of a squash. */
  poster: Signature
  merger: Signature
  signingKey: string | undefined
}

/** The new tip of the base branch, and the message of that commit; the message is empty when the commit is not new. */
interface BuiltMerge {
  commit: string
  message: string
}

/** Builds the merge. Resolves to a conflict (merge rule 7) when the style cannot merge the two. */
export async function buildMerge(
  dir: string,
  pull: ActivePull,
  merge: MergeToBuild,
): Promise<BuiltMerge | Refusal> {
  const { style, base, fields, headLabel, poster, merger, signingKey } = merge
  const head = pull.head.sha
  switch (style) {
    case 'merge': {
      const tree = cleanTree(await mergeTrees(dir, base, head))
      if (isRefused(tree)) return tree
      const message = mergeMessage(style, pull, fields, headLabel)
      const people = { author: merger, committer: merger, signingKey }
      return { message, commit: await commitTree(dir, { tree, parents: [base, head], message, ...people }) }
    }
    case 'squash': {
      const tree = cleanTree(await mergeTrees(dir, base, head))
      if (isRefused(tree)) return tree
      const ids = (await commitRange(dir, base, head)).page(0, MAX_SQUASHED)
      const facts = await commitFacts(dir, ids)
      const authors = ids.flatMap((id) => facts.get(id)?.author ?? []).reverse()
      const message = mergeMessage(style, pull, fields, headLabel, coAuthorsOf(authors, poster))
      const people = { author: { ...poster, date: merger.date }, committer: merger, signingKey }
      return { message, commit: await commitTree(dir, { tree, parents: [base], message, ...people }) }
    }
    case 'rebase': {
      const tip = rebasedTip(await rebase(dir, { base, head, committer: merger, signingKey }))
      return isRefused(tip) ? tip : { commit: tip, message: '' }
    }
    case 'rebase-merge': {
      const tip = rebasedTip(await rebase(dir, { base, head, committer: merger, signingKey }))
      if (isRefused(tip)) return tip
      // The base has all of these changes already, so there is nothing to merge.
      if (tip === base) return { commit: base, message: '' }
      const tree = (await commitFacts(dir, [tip])).get(tip)?.tree
      if (tree === undefined) throw new Error(`the rebased commit ${tip} is missing`)
      const message = mergeMessage(style, pull, fields, headLabel)
      const people = { author: merger, committer: merger, signingKey }
      return { message, commit: await commitTree(dir, { tree, parents: [base, tip], message, ...people }) }
    }
    case 'fast-forward-only': {
      if (await isAncestor(dir, base, head)) return { commit: head, message: '' }
      return refuse.conflict('the branches have diverged: a fast-forward is not possible')
    }
  }
}

function isRefused(result: string | Refusal): result is Refusal {
  return typeof result === 'object' && isRefusal(result)
}

/** The merged tree, or a conflict for the client. */
export function cleanTree(merged: MergeResult): string | Refusal {
  switch (merged.kind) {
    case 'clean':
      return merged.tree
    case 'conflicts':
      return refuse.conflict('merge conflicts', merged.files)
    case 'unrelated':
      return unrelated
  }
}

/** The tip of the rebased commits, or a conflict for the client. */
export function rebasedTip(rebased: RebaseResult): string | Refusal {
  switch (rebased.kind) {
    case 'clean':
      return rebased.tip
    case 'conflicts':
      return refuse.conflict(`rebase conflicts in commit ${rebased.commit}`, rebased.files)
    case 'unrelated':
      return unrelated
    case 'too-long':
      return refuse.conflict(`${rebased.commits} commits are too many to rebase`)
  }
}

const unrelated = refuse.conflict('head and base have unrelated histories')
