/** The routes of the API, grouped by resource. */

import type { Routes } from '../auth/routes.ts'
import { maintenanceRoutes } from '../commands/administration/maintenance.ts'
import { rebuildRoutes } from '../commands/administration/rebuild.ts'
import { attachmentRoutes, issueFileRoutes, releaseAssetRoutes } from '../commands/attachments/routes.ts'
import { createBranchRoutes } from '../commands/branches/create.ts'
import { deleteBranchRoutes } from '../commands/branches/delete.ts'
import { moveBranchRoutes } from '../commands/branches/move.ts'
import { branchProtectionRoutes } from '../commands/branches/protections/routes.ts'
import { renameBranchRoutes } from '../commands/branches/rename.ts'
import { commentRoutes } from '../commands/comments/routes.ts'
import { contentsRoutes } from '../commands/contents/routes.ts'
import { deleteIssueRoutes } from '../commands/issues/delete.ts'
import { dependencyRoutes } from '../commands/issues/dependencies.ts'
import { editIssueRoutes } from '../commands/issues/edit.ts'
import { eraseRoutes } from '../commands/issues/erasures/routes.ts'
import { issueLabelRoutes } from '../commands/issues/labels.ts'
import { lockRoutes } from '../commands/issues/lock-routes.ts'
import { openIssueRoutes } from '../commands/issues/open.ts'
import { adminKeyRoutes } from '../commands/keys/admin-routes.ts'
import { gpgKeyRoutes } from '../commands/keys/gpg-routes.ts'
import { keyRoutes } from '../commands/keys/routes.ts'
import { labelRoutes } from '../commands/labels/routes.ts'
import { milestoneRoutes } from '../commands/milestones/routes.ts'
import { notificationRoutes } from '../commands/notifications/routes.ts'
import { subscriptionRoutes } from '../commands/notifications/subscription-routes.ts'
import { createOrganizationRoutes } from '../commands/organizations/create.ts'
import { deleteOrganizationRoutes } from '../commands/organizations/delete.ts'
import { editOrganizationRoutes } from '../commands/organizations/edit.ts'
import { memberRoutes } from '../commands/organizations/members.ts'
import { teamMemberRoutes } from '../commands/organizations/team-members.ts'
import { teamRoutes } from '../commands/organizations/team-routes.ts'
import { updatePullRoutes } from '../commands/pull-requests/branches/update.ts'
import { editPullRoutes } from '../commands/pull-requests/edit.ts'
import { mergePullRoutes } from '../commands/pull-requests/merge.ts'
import { openPullRoutes } from '../commands/pull-requests/open.ts'
import { reactionRoutes } from '../commands/reactions/routes.ts'
import { releaseRoutes } from '../commands/releases/routes.ts'
import { collaboratorRoutes } from '../commands/repositories/collaborators.ts'
import { createRepositoryRoutes } from '../commands/repositories/creation/create.ts'
import { forkRoutes } from '../commands/repositories/creation/fork.ts'
import { generateRoutes } from '../commands/repositories/creation/generate.ts'
import { mergeUpstreamRoutes } from '../commands/repositories/creation/merge-upstream.ts'
import { deleteRepositoryRoutes } from '../commands/repositories/delete.ts'
import { editRepositoryRoutes } from '../commands/repositories/edit.ts'
import { followRoutes } from '../commands/repositories/follows/routes.ts'
import { transferRoutes } from '../commands/repositories/ownership/transfer.ts'
import { pinRoutes } from '../commands/repositories/pin-routes.ts'
import { topicRoutes } from '../commands/repositories/topic-routes.ts'
import { conversationRoutes } from '../commands/reviews/conversations.ts'
import { reviewRequestRoutes } from '../commands/reviews/review-request-routes.ts'
import { reviewRoutes } from '../commands/reviews/routes.ts'
import { postStatusRoutes } from '../commands/statuses/post.ts'
import { tagProtectionRoutes } from '../commands/tags/protection-routes.ts'
import { tagRoutes } from '../commands/tags/routes.ts'
import { upgradeRoutes } from '../commands/upgrade/routes.ts'
import { createUserRoutes } from '../commands/users/create.ts'
import { deleteUserRoutes } from '../commands/users/delete.ts'
import { editUserRoutes } from '../commands/users/edit.ts'
import { emailRoutes } from '../commands/users/emails.ts'
import { passwordRoutes } from '../commands/users/password.ts'
import { tokenRoutes } from '../commands/users/tokens.ts'
import { webhookRoutes } from '../commands/webhooks/routes.ts'
import { nodeRoutes } from '../queries/administration/nodes.ts'
import { serverSettingsRoutes } from '../queries/administration/server-settings.ts'
import { fileListRoutes } from '../queries/attachments/file-lists.ts'
import { branchProtectionQueryRoutes } from '../queries/branches/branch-protections.ts'
import { branchQueryRoutes } from '../queries/branches/branches.ts'
import { commentQueryRoutes } from '../queries/comments/comments.ts'
import { commitQueryRoutes } from '../queries/contents/commits.ts'
import { compareRoutes } from '../queries/contents/compare.ts'
import { contentsQueryRoutes } from '../queries/contents/contents.ts'
import { contentsExtRoutes } from '../queries/contents/contents-ext.ts'
import { fileDownloadRoutes } from '../queries/contents/file-downloads.ts'
import { gitObjectRoutes } from '../queries/contents/git-objects.ts'
import { markupRoutes } from '../queries/contents/markup.ts'
import { changesRoutes } from '../queries/history/changes/routes.ts'
import { historyRoutes } from '../queries/history/history.ts'
import { replayRoutes } from '../queries/history/replay/routes.ts'
import { dependencyQueryRoutes } from '../queries/issues/dependencies.ts'
import { issueSearchRoutes } from '../queries/issues/issue-search.ts'
import { issueTemplateRoutes } from '../queries/issues/issue-templates.ts'
import { issueQueryRoutes } from '../queries/issues/issues.ts'
import { timelineRoutes } from '../queries/issues/timeline.ts'
import { gpgKeyQueryRoutes } from '../queries/keys/gpg-keys.ts'
import { keyQueryRoutes } from '../queries/keys/keys.ts'
import { labelQueryRoutes } from '../queries/labels/labels.ts'
import { logCheckpointRoutes } from '../queries/log/checkpoints.ts'
import { milestoneQueryRoutes } from '../queries/milestones/milestones.ts'
import { notificationQueryRoutes } from '../queries/notifications/notifications.ts'
import { subscriptionQueryRoutes } from '../queries/notifications/subscriptions.ts'
import { organizationQueryRoutes } from '../queries/organizations/organizations.ts'
import { teamQueryRoutes } from '../queries/organizations/teams.ts'
import { evidenceReportRoutes } from '../queries/pull-requests/evidence/report-route.ts'
import { evidenceRoutes } from '../queries/pull-requests/evidence/routes.ts'
import { pullByBranchesRoutes } from '../queries/pull-requests/pull-by-branches.ts'
import { pullDiffRoutes, pullGitRoutes } from '../queries/pull-requests/pull-git.ts'
import { pullQueryRoutes } from '../queries/pull-requests/pulls.ts'
import { reactionQueryRoutes } from '../queries/reactions/reactions.ts'
import { releaseQueryRoutes } from '../queries/releases/releases.ts'
import { archiveRoutes } from '../queries/repositories/archives.ts'
import { collaboratorQueryRoutes } from '../queries/repositories/collaborators.ts'
import { diskUsageRoutes } from '../queries/repositories/disk-usage.ts'
import { followQueryRoutes } from '../queries/repositories/follows.ts'
import { pinQueryRoutes } from '../queries/repositories/pins.ts'
import { repositoryQueryRoutes } from '../queries/repositories/repositories.ts'
import { repositoryListRoutes } from '../queries/repositories/repository-lists.ts'
import { repositorySearchRoutes } from '../queries/repositories/repository-search.ts'
import { candidateRoutes } from '../queries/reviews/candidates.ts'
import { reviewQueryRoutes } from '../queries/reviews/routes.ts'
import { statusQueryRoutes } from '../queries/statuses/statuses.ts'
import { tagProtectionQueryRoutes } from '../queries/tags/tag-protections.ts'
import { tagQueryRoutes } from '../queries/tags/tags.ts'
import { accountListRoutes } from '../queries/users/account-lists.ts'
import { userQueryRoutes } from '../queries/users/users.ts'
import { webhookQueryRoutes } from '../queries/webhooks/webhooks.ts'

/** One plugin for each file of routes. The order doesn't matter. */
export const API_ROUTES: readonly Routes[] = [
  // Users and organizations
  createUserRoutes,
  editUserRoutes,
  emailRoutes,
  passwordRoutes,
  deleteUserRoutes,
  userQueryRoutes,
  accountListRoutes,
  tokenRoutes,
  createOrganizationRoutes,
  editOrganizationRoutes,
  deleteOrganizationRoutes,
  memberRoutes,
  organizationQueryRoutes,
  teamRoutes,
  teamMemberRoutes,
  teamQueryRoutes,

  // Repositories
  createRepositoryRoutes,
  editRepositoryRoutes,
  deleteRepositoryRoutes,
  repositoryQueryRoutes,
  repositoryListRoutes,
  repositorySearchRoutes,
  topicRoutes,
  transferRoutes,
  generateRoutes,
  forkRoutes,
  mergeUpstreamRoutes,
  collaboratorRoutes,
  collaboratorQueryRoutes,

  // Stars and watching
  followRoutes,
  followQueryRoutes,

  // Public keys
  keyRoutes,
  keyQueryRoutes,
  gpgKeyRoutes,
  gpgKeyQueryRoutes,
  adminKeyRoutes,

  // Branches and commits
  createBranchRoutes,
  renameBranchRoutes,
  moveBranchRoutes,
  deleteBranchRoutes,
  tagRoutes,
  tagProtectionRoutes,
  tagProtectionQueryRoutes,
  tagQueryRoutes,
  branchQueryRoutes,
  branchProtectionRoutes,
  branchProtectionQueryRoutes,
  postStatusRoutes,
  statusQueryRoutes,
  commitQueryRoutes,
  compareRoutes,
  gitObjectRoutes,

  // Releases
  releaseRoutes,
  releaseAssetRoutes,
  releaseQueryRoutes,
  // Files
  contentsRoutes,
  contentsQueryRoutes,
  contentsExtRoutes,
  fileDownloadRoutes,
  archiveRoutes,

  // Pull requests
  openPullRoutes,
  editPullRoutes,
  updatePullRoutes,
  mergePullRoutes,
  pullQueryRoutes,
  pullByBranchesRoutes,
  pullDiffRoutes,
  pullGitRoutes,
  evidenceRoutes,
  evidenceReportRoutes,
  reviewRoutes,
  reviewRequestRoutes,
  conversationRoutes,
  reviewQueryRoutes,
  candidateRoutes,

  // Issues; pull requests are issues too
  openIssueRoutes,
  editIssueRoutes,
  deleteIssueRoutes,
  issueQueryRoutes,
  issueSearchRoutes,
  issueLabelRoutes,
  dependencyRoutes,
  dependencyQueryRoutes,
  commentRoutes,
  commentQueryRoutes,
  attachmentRoutes,
  issueFileRoutes,
  fileListRoutes,
  issueTemplateRoutes,
  lockRoutes,
  pinRoutes,
  pinQueryRoutes,
  eraseRoutes,
  timelineRoutes,
  reactionRoutes,
  reactionQueryRoutes,
  subscriptionRoutes,
  subscriptionQueryRoutes,
  notificationRoutes,
  notificationQueryRoutes,

  // Labels and milestones
  labelRoutes,
  labelQueryRoutes,
  milestoneRoutes,
  milestoneQueryRoutes,

  // Webhooks
  webhookRoutes,
  webhookQueryRoutes,

  // The server itself
  serverSettingsRoutes,
  markupRoutes,

  // The log
  historyRoutes,
  changesRoutes,
  replayRoutes,
  logCheckpointRoutes,

  // Site administration
  nodeRoutes,
  upgradeRoutes,
  rebuildRoutes,
  maintenanceRoutes,
  diskUsageRoutes,
]
