/** After `kill -9` between any two steps of a rename, the next start has either not begun it or finished it. */
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { killedAfter } from '../../killed-server.ts'
import { passwordOf, startTestServer } from '../../start-server.ts'
import { until } from '../../until.ts'
import { startPulls } from '../pull-requests/pull-repository.ts'

/**
 * The effect after which the server is killed, whether the branch then has its new name, and a kill of the next start.
 */
interface Death {
  effect(to: string, repoId: number): RegExp
  renamed: boolean
  again?: RegExp
}

// A start recovers what the previous one left: an effect names the branch, or the recoveries above do not have it.
const DEATHS: readonly Death[] = [
  { effect: () => /^remove \S+\/pushes\/.*"note"/, renamed: true },
  { effect: (to) => new RegExp(`^append ClaimTaken claim-pull-.*:${to}`), renamed: false },
  { effect: () => /^write \S+\/pushes\/.*"note"/, renamed: false },
  { effect: () => /^append PullRequestBranchRenamed/, renamed: true },
  // One append holds the settings and the move of the refs.
  {
    effect: (to) => new RegExp(`^git update-ref .*refs/heads/${to}`),
    renamed: true,
    again: /^append RepositoryEdited/,
  },
  { effect: (to) => new RegExp(`^git symbolic-ref HEAD .*/${to}`), renamed: true },
  {
    effect: (_, repoId) => new RegExp(`^append ClaimReleased claim-pull-${repoId}\\b.*:main`),
    renamed: true,
  },
]

t.test(
  'after kill -9 at any step of a rename, the next start has the old name or the new one whole',
  async (t) => {
    const DATA_DIR = await mkdtemp(join(tmpdir(), 'mergelog-renames-'))
    t.teardown(() => rm(DATA_DIR, { recursive: true, force: true, maxRetries: 3 }))
    const first = await startPulls(t, { DATA_DIR })
    const made = await Promise.all(
      DEATHS.map(async (death, i) => {
        const name = `app${i}`
        const hosted = await first.repository(t, name)
        const { tip, dir, repoId, work } = hosted
        await Promise.all(['a', 'b'].map((branch) => hosted.branch(branch, { [branch]: branch })))
        await hosted.protect('main', { enable_push: false })
        await hosted.knowsChecks()
        const [open, scheduled] = [await hosted.open('a'), await hosted.open('b')]
        const answer = await hosted.merge(scheduled, { merge_when_checks_succeed: true })
        if (answer.status !== 201) throw new Error(answer.text)
        return {
          ...death,
          to: `trunk${i}`,
          name,
          dir,
          repoId,
          work,
          main: await tip('main'),
          open,
          scheduled,
        }
      }),
    )
    await first.server.stop()
    const authorization = `Basic ${Buffer.from(`alice:${passwordOf('alice')}`).toString('base64')}`
    const headers = { authorization, 'content-type': 'application/json' }
    for (const { effect, again, name, to, repoId } of made) {
      await killedAfter(t, DATA_DIR, effect(to, repoId), (url) =>
        fetch(`${url}/api/v1/repos/alice/${name}/branches/main`, {
          method: 'PATCH',
          headers,
          body: JSON.stringify({ name: to }),
        }),
      )
      if (again !== undefined) await killedAfter(t, DATA_DIR, again)
    }

    const server = await startTestServer(t, { DATA_DIR })
    const ask = async (path: string, method = 'GET', body?: object) => {
      const answer = await server.fetch('alice', `/api/v1/repos/alice/${path}`, {
        method,
        ...(body && { body: JSON.stringify(body) }),
      })
      return {
        status: answer.status,
        body: answer.status === 204 ? undefined : JSON.parse(await answer.text()),
      }
    }
    const stateOf = async ({ name, dir, work, open, scheduled }: (typeof made)[number]) => {
      const branches = (await ask(`${name}/branches`)).body
      const rules = (await ask(`${name}/branch_protections`)).body
      const pulls = [
        (await ask(`${name}/pulls/${open}`)).body,
        (await ask(`${name}/pulls/${scheduled}`)).body,
      ]
      return {
        branches: branches.map((branch: { name: string }) => branch.name),
        git: (
          await work.git('--git-dir', dir, 'for-each-ref', '--format=%(refname:short)', 'refs/heads')
        ).split('\n'),
        head: await work.git('--git-dir', dir, 'symbolic-ref', '--short', 'HEAD'),
        default: (await ask(name)).body.default_branch,
        rules: rules.map((rule: { rule_name: string }) => rule.rule_name),
        bases: pulls.map(({ base, mergeable, merged, state }) => [
          base.ref,
          base.sha,
          mergeable,
          merged,
          state,
        ]),
      }
    }
    for (const repository of made) {
      const { renamed, main, name, to, repoId } = repository
      const after = `after ${repository.effect(to, repoId)}`
      const now = renamed ? to : 'main'
      const wanted = {
        branches: ['a', 'b', now],
        git: ['a', 'b', now],
        head: now,
        default: now,
        rules: [now],
        bases: Array.from({ length: 2 }, () => [now, main, true, false, 'open']),
      }
      t.strictSame(await stateOf(repository), wanted, after)
      const again = await ask(`${name}/branches/${now}`, 'PATCH', { name: 'trunk2' })
      t.equal(again.status, 204, `${after}: it can be renamed`)
      t.strictSame(
        (await stateOf(repository)).bases.map(([base]) => base),
        ['trunk2', 'trunk2'],
      )
      const twin = await ask(`${name}/pulls`, 'POST', { head: 'a', base: 'trunk2', title: 'x' })
      t.equal(twin.status, 409, `${after}: one pull request for a head and a base`)
      const { body: made } = await ask(`${name}/branches`, 'POST', { new_branch_name: 'main' })
      t.equal(made.name, 'main')
      const other = await ask(`${name}/pulls`, 'POST', { head: 'a', base: 'main', title: 'x' })
      t.equal(other.status, 201, `${after}: the old names are free`)
    }
    await until('scheduled merges are still there', async () => {
      const left = await server.services.views.pulls.find({ scheduled: true })
      return left.length === made.length
    })
    const recorded: string[] = []
    for await (const { type, stream } of server.services.events.readAll()) {
      if (type === 'ScheduledMergeRefused') recorded.push(stream)
    }
    t.strictSame(recorded, [])
  },
)
