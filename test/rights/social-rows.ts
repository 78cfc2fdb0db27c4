/** The rows of what people do with what others have made: reactions, stars, watching. */
import type { Row } from './route-rows.ts'
import type { Call, Place } from './route-world.ts'

const REPO = '/api/v1/repos/:owner/:repo'

const row = (who: string, call?: Row['call']): Row => (call === undefined ? { who } : { who, call })
const carol = (): Call => ({ path: { username: 'carol' } })

/** After all who may read the repository have sent this. */
const afterAll = (path: (place: Place) => string) => async (place: Place) => {
  const readers = place.kind === 'public' ? ['dave'] : []
  for (const login of [...readers, 'carol', 'bob', 'alice', 'admin']) {
    await place.must(login, 'PUT', path(place))
  }
  return {}
}
const star = afterAll(({ owner, repo }) => `/user/starred/${owner}/${repo}`)
const watch = afterAll(({ base }) => `${base}/subscription`)

const reactions = (path: string, target: (place: Place) => Record<string, number>) => ({
  [`GET ${path}`]: row('read 200', (place) => ({ path: target(place) })),
  [`POST ${path}`]: row('read-signed-in 201', (place) => ({
    path: target(place),
    body: { content: REACTIONS[place.next() % REACTIONS.length] },
  })),
  [`DELETE ${path}`]: row('read-signed-in 200', (place) => ({
    path: target(place),
    body: { content: 'heart' },
  })),
})
const REACTIONS = ['+1', '-1', 'laugh', 'rocket', 'eyes']

export const SOCIAL_ROWS: Readonly<Record<string, Row>> = {
  ...reactions(`${REPO}/issues/:index/reactions`, ({ issue }) => ({ index: issue })),
  ...reactions(`${REPO}/issues/comments/:id/reactions`, ({ comment }) => ({ id: comment })),

  'GET /api/v1/user/starred': row('signed-in 200'),
  'GET /api/v1/user/subscriptions': row('signed-in 200'),
  'GET /api/v1/users/:username/starred': row('everybody 200', carol),
  'GET /api/v1/users/:username/subscriptions': row('everybody 200', carol),
  [`GET ${REPO}/stargazers`]: row('read 200', star),
  [`GET ${REPO}/subscribers`]: row('read 200', watch),
  'GET /api/v1/user/starred/:owner/:repo': row('read-signed-in 204', star),
  'PUT /api/v1/user/starred/:owner/:repo': row('read-signed-in 204'),
  'DELETE /api/v1/user/starred/:owner/:repo': row('read-signed-in 204'),
  [`GET ${REPO}/subscription`]: row('read-signed-in 200', watch),
  [`PUT ${REPO}/subscription`]: row('read-signed-in 200'),
  [`DELETE ${REPO}/subscription`]: row('read-signed-in 204'),
}
