/** Pull requests from a private fork show only what their poster may read now. */
import t from 'tap'
import { startPulls } from './pull-repository.ts'

const { server, repository } = await startPulls(t)

t.test(
  'a pull request shows no new commits of a private fork after its poster has lost access',
  async (t) => {
    const base = await repository(t, 'base')
    const fork = await base.fork('bob', 'fork')
    const ask = async (method: string, path: string, body?: object) => {
      const init = { method, ...(body && { body: JSON.stringify(body) }) }
      const answer = await server.fetch('bob', `/api/v1/repos/bob/fork${path}`, init)
      if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status}`)
    }
    await ask('PATCH', '', { private: true })
    await ask('PUT', '/collaborators/carol', { permission: 'read' })
    const first = await fork.branch('idea', { idea: 'first\n' })
    const index = await base.open('bob:idea', {}, 'carol')

    const second = await fork.branch('idea', { idea: 'second\n' }, 'idea')
    t.equal((await base.get(index)).head?.sha, second, 'as long as its poster reads the fork, it follows')

    await ask('DELETE', '/collaborators/carol')
    const third = await fork.branch('idea', { idea: 'third\n' }, 'idea')
    t.equal((await base.get(index)).head?.sha, second)
    t.equal((await base.call(null, 'GET', `git/commits/${third}`)).status, 404)
    t.equal((await base.call('alice', 'POST', `pulls/${index}/merge`, { Do: 'merge' })).status, 409)
    t.not(first, second)

    await ask('PUT', '/collaborators/carol', { permission: 'read' })
    const fourth = await fork.branch('idea', { idea: 'fourth\n' }, 'idea')
    t.equal((await base.get(index)).head?.sha, fourth, 'who reads it again shows it again')
  },
)
