/** Builds the commit of a merge, as git would. No ref moves. */

import { coded, isRefusal, type Refusal, refuse } from '../../errors/refusal.ts'
import type { MergeIntent } from '../../events/catalog/pull-requests.ts'
import type { MergeStyle } from '../../events/catalog/repositories.ts'
import { commitRange } from '../../git/commits/commit-range.ts'
import { commitFacts, type Signature } from '../../git/commits/commits.ts'
import { isAncestor } from '../../git/commits/history.ts'
import { commitTree } from '../../git/commits/new-commit.ts'
import { type MergeResult, mergeTrees } from '../../git/merge/merge.ts'
import { type RebaseResult, rebase } from '../../git/merge/rebase.ts'
import { coAuthorsOf, type MessageFields, mergeMessage } from './merge-message.ts'
import type { ActivePull } from './pull-request.decider.ts'

/** Maximum number of commits whose authors a squash names, newest first. */
const MAX_SQUASHED = 1000

interface MergeToBuild {
  style: Exclude<MergeStyle, 'manually-merged'>
  base: string
  fields: MessageFields
  headLabel: string
  /** The poster, who is the author of a squash. */
  poster: Signature
  merger: Signature
  /** Returns the authors with the addresses that the API shows. */
  withShownEmails: (authors: readonly Signature[]) => Promise<Signature[]>
  signingKey: string | undefined
}

type CoAuthors = ReturnType<typeof coAuthorsOf>

/**
 * Builds the merge. Resolves to the new tip of the base branch and its message, which is empty unless the commit is
 * new; or to a conflict (`merge.7`).
 */
export async function buildMerge(
  dir: string,
  pull: ActivePull,
  merge: MergeToBuild,
): Promise<Pick<MergeIntent, 'commit' | 'message'> | Refusal> {
  const { style, base, fields, headLabel, poster, merger, withShownEmails, signingKey } = merge
  const head = pull.head.sha
  async function commitOf(tree: string, parents: string[], author: Signature, coAuthors?: CoAuthors) {
    const message = mergeMessage(style, pull, fields, headLabel, coAuthors)
    const content = { tree, parents, message, author, committer: merger, signingKey }
    return { message, commit: await commitTree(dir, content) }
  }
  switch (style) {
    case 'merge':
    case 'squash': {
      const tree = cleanTree(await mergeTrees(dir, base, head))
      if (isRefused(tree)) return tree
      if (style === 'merge') return commitOf(tree, [base, head], merger)
      const ids = (await commitRange(dir, base, head)).page(0, MAX_SQUASHED)
      const facts = await commitFacts(dir, ids)
      const authors = ids.flatMap((id) => facts.get(id)?.author ?? []).reverse()
      return commitOf(
        tree,
        [base],
        { ...poster, date: merger.date },
        coAuthorsOf(await withShownEmails(authors), poster),
      )
    }
    case 'rebase':
    case 'rebase-merge': {
      const tip = rebasedTip(await rebase(dir, { base, head, committer: merger, signingKey }))
      if (isRefused(tip)) return tip
      // A tip equal to the base: the base has all changes already.
      if (style === 'rebase' || tip === base) return { commit: tip, message: '' }
      const tree = (await commitFacts(dir, [tip])).get(tip)?.tree
      if (tree === undefined) throw new Error(`the rebased commit ${tip} is missing`)
      return commitOf(tree, [base, tip], merger)
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

/** Returns the merged tree, or a conflict. */
export function cleanTree(merged: MergeResult): string | Refusal {
  switch (merged.kind) {
    case 'clean':
      return merged.tree
    case 'conflicts':
      return coded('merge_conflicts', refuse.conflict('merge conflicts', merged.files))
    case 'unrelated':
      return unrelated
  }
}

/** Returns the tip of the rebased commits, or a conflict. */
export function rebasedTip(rebased: RebaseResult): string | Refusal {
  switch (rebased.kind) {
    case 'clean':
      return rebased.tip
    case 'conflicts':
      return coded(
        'merge_conflicts',
        refuse.conflict(`rebase conflicts in commit ${rebased.commit}`, rebased.files),
      )
    case 'unrelated':
      return unrelated
    case 'too-long':
      return refuse.conflict(`${rebased.commits} commits are too many to rebase`)
  }
}

const unrelated = refuse.conflict('head and base have unrelated histories')
