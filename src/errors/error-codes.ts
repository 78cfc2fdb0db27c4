/**
 * Error codes, a stable part of the API: messages are for people, and may change. `docs/errors.md` lists them. A refusal
 * without its own code has that of its kind.
 */
export const ERROR_CODES = {
  already_locked: 'another user has locked this path (git LFS)',
  bad_credentials: 'the password or the token is wrong or has expired',
  base_moved: 'a push has moved the base branch before the merge; try again',
  branch_exists: 'a branch with that name exists',
  branch_protected: 'a branch protection forbids it',
  conflict: 'the request contradicts the current state',
  conversation_locked: 'only writers take part in this conversation',
  cross_site: 'a page of another site sent the request',
  default_branch: 'this is not possible for the default branch',
  forbidden: 'you lack the permission',
  fork_exists: 'the owner has a fork of this repository already',
  gone: 'git no longer has this commit of the past; the message has its id',
  insufficient_storage: 'the disk or a quota is full',
  internal_error: 'the server has failed; its log says why',
  invalid_fields:
    'fields of the body or the query are missing, or have a wrong type or length; `errors` names each',
  invalid_request: 'the request cannot be understood',
  locked: 'the resource cannot be changed now',
  merge_conflicts: 'head and base conflict; `errors` names the files',
  method_not_allowed: 'the path has other methods; the header `Allow` names them',
  moved: 'the resource has another name now; the header `Location` has it',
  not_allowed: 'this is not allowed here or now; the message has the reason',
  not_found: 'the resource does not exist, or you may not see it',
  password_change_required: 'you must change your password first',
  precondition_failed:
    'the current state forbids it: open dependencies, a merged pull request, or a changed file',
  pull_request_exists: 'an open pull request has the same head and base; the message names it',
  release_exists: 'the tag has a release already',
  repository_archived: 'the repository is archived: it can only be read',
  repository_empty: 'the repository has no commits',
  repository_exists: 'the owner has a repository with that name',
  route_not_found: 'the API has no such path',
  sign_in_prohibited: 'the account may not sign in',
  tag_exists: 'a tag with that name exists',
  timed_out: 'the request came too slowly',
  token_scope_missing: 'the access token lacks a scope; the message names it',
  too_large: 'the request, or a part of it, is too large',
  too_many_requests: 'too many requests; the header `Retry-After` says when to try again',
  unauthenticated: 'sign in first',
  unavailable: 'the server cannot do this now; try again',
  unprocessable: 'a field has a value that cannot be applied; `errors` names it and the reason',
  unsupported: 'the type or coding of the body is not supported',
  username_taken: 'another account has, or has had, that name',
} as const

export type ErrorCode = keyof typeof ERROR_CODES
