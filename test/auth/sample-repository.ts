/** A repository with a resource of every kind. */
import type { World } from './route-world.ts'

/** A mark in every text of the repository. */
export const MARK = 'zanzibar'

/** Creates a public one of alice. */
export async function makeSampleRepository({ services, send, must, place }: World) {
  const there = await place('public')
  const { base, owner, repo, issue, pull, head } = there
  const api = `/api/v1${base}`
  const made = async (path: string, body: object, login = 'alice') =>
    must<{ id: number; number: number }>(login, 'POST', `${base}${path}`, body)
  const patch = (path: string, body: object) => must('alice', 'PATCH', `${base}${path}`, body)
  await patch('', { description: `All of ${MARK}` })
  await must('alice', 'PUT', `${base}/topics`, { topics: [MARK] })
  await patch(`/issues/${issue}`, { title: MARK, body: `${MARK} and @carol`, assignees: ['bob'] })
  await patch(`/pulls/${pull}`, { title: MARK, body: MARK })
  const comment = await made(`/issues/${issue}/comments`, { body: `${MARK} for @dave and @admin` }, 'bob')
  await made(`/issues/comments/${comment.id}/reactions`, { content: 'heart' })
  const upload = there.make.upload(`${MARK}.txt`)
  const file = async (path: string): Promise<{ id: number; uuid: string }> =>
    JSON.parse((await send('alice', 'POST', `${api}${path}`, upload)).text)
  const files = [
    await file(`/issues/${issue}/assets`),
    await file(`/issues/comments/${comment.id}/assets`),
    await file(`/releases/${there.release.id}/assets`),
  ]
  await patch(`/releases/${there.release.id}`, { name: MARK, body: MARK })
  const label = await made('/labels', { name: MARK, color: '#aabbcc', description: MARK })
  const milestone = await made('/milestones', { title: MARK, description: MARK })
  await patch(`/issues/${issue}`, { milestone: milestone.id })
  await made(`/issues/${issue}/labels`, { labels: [label.id] })
  const hook = await made('/hooks', {
    type: 'gitea',
    active: false,
    config: { url: `https://${MARK}.example.org/x`, content_type: 'json' },
  })
  const status = { context: MARK, state: 'success', description: MARK }
  await made(`/statuses/${head}`, status)
  const review = await made(
    `/pulls/${pull}/reviews`,
    { event: 'COMMENT', body: `${MARK}, looked at by carol` },
    'carol',
  )
  await made(`/pulls/${pull}/requested_reviewers`, { reviewers: ['bob'] })
  for (const login of ['bob', 'dave', 'admin']) {
    await must(login, 'PUT', `/user/starred/${owner}/${repo}`)
    await must(login, 'PUT', `${base}/subscription`)
    await must(login, 'PUT', `${base}/issues/${issue}/subscriptions/${login}`)
  }
  const issues = await services.views.issues.find({})
  return {
    ...{ there, owner, repo, base, issue, pull, head },
    ids: [
      ...issues.map(({ id }) => id),
      ...[comment.id, there.release.id, label.id, milestone.id, hook.id, review.id],
      ...files.map(({ id }) => id),
    ],
    uuids: files.map(({ uuid }) => uuid),
  }
}
