/** Branches on the wire. */
import { type Static, Type } from 'typebox'
import type { Access } from '../../access/access.ts'
import { mayMerge, mayPush, protectionOf } from '../../access/protection-rules.ts'
import { reviewRulesOf } from '../../access/review-rules.ts'
import { memberOf } from '../../access/team-membership.ts'
import type { Signature } from '../../events/catalog/branches.ts'
import type { BranchDocument } from '../../projections/models/branches/branches.fold.ts'
import type { RepositoryDocument } from '../../projections/models/repositories/repositories.fold.ts'
import type { AccountDocument } from '../../projections/models/users/accounts.fold.ts'
import { NOT_SIGNED, VerificationWire } from '../contents/commits.ts'
import { Nullable } from '../nullable.ts'

/** `*`: the name of the branch, which may contain slashes. */
export const BranchParams = Type.Object({ owner: Type.String(), repo: Type.String(), '*': Type.String() })

const PersonWire = Type.Object(
  { name: Type.String(), email: Type.String(), username: Type.String() },
  { title: 'PayloadUser' },
)

export const BranchWire = Type.Object(
  {
    name: Type.String(),
    commit: Type.Object({
      id: Type.String(),
      message: Type.String(),
      url: Type.String(),
      author: PersonWire,
      committer: PersonWire,
      timestamp: Type.String(),
      verification: Nullable(VerificationWire, {
        description:
          'Verification of the signature; null for a signed commit in a list or just made: it was not verified',
      }),
      added: Type.Null(),
      removed: Type.Null(),
      modified: Type.Null(),
    }),
    protected: Type.Boolean(),
    required_approvals: Type.Integer(),
    enable_status_check: Type.Boolean(),
    status_check_contexts: Type.Array(Type.String()),
    user_can_push: Type.Boolean(),
    user_can_merge: Type.Boolean(),
    effective_branch_protection_name: Type.String(),
  },
  { title: 'Branch' },
)

/** Returns a branch as Gitea's `Branch`. `verification`: that of a signed commit, if it was verified. */
export function branchWire(
  branch: BranchDocument,
  repository: RepositoryDocument,
  { requester, access }: { requester: AccountDocument | null; access: Access },
  publicUrl: string,
  verification: Static<typeof VerificationWire> | null = null,
): Static<typeof BranchWire> {
  const { sha, message, author, committer, isSigned } = branch.commit
  const protection = protectionOf(repository.protections, branch.name)
  const member = requester === null ? null : memberOf(repository, requester)
  return {
    name: branch.name,
    commit: {
      id: sha,
      message,
      url: `${publicUrl}/${repository.ownerLogin}/${repository.name}/commit/${sha}`,
      author: personWire(author),
      committer: personWire(committer),
      timestamp: committer.date,
      verification: isSigned ? verification : NOT_SIGNED,
      // As in Gitea, only the commits of a push have these.
      added: null,
      removed: null,
      modified: null,
    },
    protected: protection !== undefined,
    required_approvals: reviewRulesOf(protection).required,
    enable_status_check: protection?.statusCheck ?? false,
    status_check_contexts: protection?.contexts ?? [],
    user_can_push: member !== null && mayPush(protection, member, access),
    user_can_merge: member !== null && mayMerge(protection, member, access),
    effective_branch_protection_name: protection?.rule ?? '',
  }
}

function personWire({ name, email }: Signature): Static<typeof PersonWire> {
  return { name, email, username: '' }
}
