/** Examples of bodies, by operation. A test sends them in this order: each works after those before it. */
export const EXAMPLES: Readonly<Record<string, object>> = {
  createCurrentUserRepo: {
    name: 'example',
    description: 'An example',
    auto_init: true,
    default_branch: 'main',
  },
  repoEdit: { description: 'A better example', default_merge_style: 'squash' },
  issueCreateLabel: { name: 'bug', color: '#d73a4a' },
  issueCreateMilestone: { title: 'Version 1', due_on: '2030-01-31T23:59:59Z' },
  issueCreateIssue: { title: 'It fails', body: 'See the log.', assignees: ['alice'] },
  issueCreateComment: { body: 'Me too' },
  repoCreateFile: { content: 'aGVsbG8K', message: 'Add a greeting', new_branch: 'greeting' },
  repoCreatePullRequest: { head: 'greeting', base: 'main', title: 'Add a greeting', body: 'Closes #1' },
  repoCreatePullReview: { event: 'COMMENT', body: 'Looks good' },
  repoMergePullRequest: { Do: 'squash', delete_branch_after_merge: true },
  repoCreateTag: { tag_name: 'v1.0.0', message: 'Version 1' },
  repoCreateRelease: { tag_name: 'v1.0.0', name: 'Version 1', body: 'The first one' },
  orgCreate: { username: 'example-org', visibility: 'public' },
  adminSchedulePlan: { name: 'v2', height: '1000', info: '{}' },
  adminApplyPlan: { height: '1000' },
}
