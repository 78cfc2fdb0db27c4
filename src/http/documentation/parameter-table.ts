/** What the parameters of paths and queries mean where their schemas do not say it, by name. */
export const PARAMETERS: Readonly<Record<string, string>> = {
  owner: 'Login of the owner of the repository',
  repo: 'Name of the repository',
  org: 'Name of the organization',
  username: 'Login of the user',
  user: 'Login of the user',
  id: 'Id of the resource',
  index: 'Number of the issue or the pull request in its repository',
  sha: 'Id of the commit or the git object; where a commit is wanted, also the name of a branch or a tag',
  team: 'Name of the team',
  topic: 'Name of the topic',
  collaborator: 'Login of the collaborator',
  token: 'Id or name of the access token',
  attachment_id: 'Id of the attachment',
  position: 'New position among the pinned issues; 1 is the first',
  diffType: 'diff or patch',
  uuid: 'UUID of the attachment',
  kind: 'branch, tag or commit',
  oid: 'SHA-256 of the LFS object, in hexadecimal digits',
  size: 'Size of the LFS object, in bytes',
  name: 'Name of the resource',
  last_height: 'Last height of the chain before the upgrade: int64 in decimal digits',
  module_name: 'Name of one module; without it, all modules',
  branch: 'Name of the branch; it may contain slashes',
  tag: 'Name of the tag; it may contain slashes',
  basehead: 'Two branches, tags or commits: `base...head`',
  ref: 'Name of a ref; it may contain slashes',
  filepath: 'Path of the file or the folder in the repository; it may contain slashes',
  archive: 'A branch, a tag or a commit, and the format: `main.zip`, `main.tar.gz` or `main.bundle`',
  head: 'Name of the head branch, or `owner:branch` for a branch of a fork',
  tag_and_name: 'Tag and file name of the release attachment: `v1/app.zip`',
  ref_and_path: 'A branch, a tag or a commit, and the path of the file: `main/docs/a.txt`',
}

/** Parameters that are numbers. Validation takes them as texts: what is no number is not found, or means the default. */
export const INTEGERS: ReadonlySet<string> = new Set(['page', 'limit', 'per_page', 'uid', 'priority_owner_id', 'team_id', 'key_id', 'attachment_id', 'position', 'size', 'priority_repo_id', 'starredBy', 'source_id', 'milestone', 'revision', 'from', 'to'])

/** Values of parameters for which an unknown value means the default. */
export const VALUES: Readonly<Record<string, readonly string[]>> = {
  'repoListPullRequests state': ['open', 'closed', 'all'],
  'repoListPullRequests sort': ['oldest', 'recentupdate', 'recentclose', 'leastupdate', 'mostcomment', 'leastcomment', 'priority'],
  'issueListIssues state': ['open', 'closed', 'all'],
  'issueSearchIssues state': ['open', 'closed', 'all'],
  'issueListIssues type': ['issues', 'pulls'],
  'issueSearchIssues type': ['issues', 'pulls'],
  'issueGetMilestonesList state': ['open', 'closed', 'all'],
  'repoListStatuses state': ['pending', 'success', 'error', 'failure', 'warning', 'skipped'],
  'repoListStatuses sort': ['oldest', 'recentupdate', 'leastupdate', 'leastindex', 'highestindex'],
  'repoSearch sort': ['alpha', 'created', 'updated', 'id', 'stars', 'forks'],
  'repoSearch order': ['asc', 'desc'],
}
