/** The story of the demo: a change is pushed, reviewed, checked, merged by a schedule, and replayed. */
import { randomBytes } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { Type } from 'typebox'
import { Nullable } from '../../api/nullable.ts'
import { checked, checkOf } from '../../storage/checked-json.ts'
import { CommandFailed } from '../explain.ts'
import { call, currentPlanOverGrpc, type DemoServer, git } from './server.ts'

const REPOSITORY = 'demo'
const REVIEWER = 'demo-reviewer'
const CHECK = 'ci/demo'
const PLAN = { name: 'demo-v2', height: '1000000', info: 'scheduled by mergelog demo' }

/** Maximum duration of the scheduled merge, in milliseconds. */
const MERGE_MS = 30_000

const isUser = checkOf(Type.Object({ is_admin: Type.Boolean() }))
const isRepository = checkOf(Type.Object({ empty: Type.Boolean() }))
const isPull = checkOf(
  Type.Object({
    number: Type.Integer(),
    state: Type.String(),
    merged: Type.Boolean(),
    mergeable: Type.Boolean(),
    head: Type.Object({ sha: Type.String() }),
    merge_commit_sha: Nullable(Type.String()),
  }),
)
const isHistory = checkOf(
  Type.Array(
    Type.Object({
      revision: Type.Integer(),
      type: Type.String(),
      at: Type.String(),
      actor: Nullable(Type.Object({ login: Type.String() })),
    }),
  ),
)
const isPlan = checkOf(
  Type.Object({ plan: Nullable(Type.Object({ name: Type.String(), height: Type.String() })) }),
)
const isProblem = checkOf(Type.Object({ message: Type.String() }))

/** Plays the story. `print` prints a line for people; `workDir` is empty. Resolves to the results. */
export async function play(server: DemoServer, workDir: string, print: (line: string) => void) {
  const { url, user } = server
  const say = (line: string) => print(`\n=> ${line}`)
  const base = `/api/v1/repos/${encodeURIComponent(user)}/${REPOSITORY}`
  const send = (method: string, path: string, expect: readonly number[], body?: object, as?: string) =>
    call(server, method, path, { expect, ...(body && { body }), ...(as !== undefined && { as }) })
  const runGit = (...args: string[]) => git(server, workDir, ...args)
  const pullAt = async (path: string) => checked(isPull, (await send('GET', path, [200])).json)

  if (!checked(isUser, (await send('GET', '/api/v1/user', [200])).json).is_admin) {
    throw new CommandFailed(
      `${user} is not a site admin. The demo needs one: it creates a user and an upgrade plan`,
    )
  }

  const found = await send('GET', base, [200, 404])
  if (found.status === 200) say(`the repository ${user}/${REPOSITORY} exists: the demo continues with it`)
  else {
    say(`a repository: ${user}/${REPOSITORY}`)
    const description = 'What Mergelog can do'
    await send('POST', '/api/v1/user/repos', [201], { name: REPOSITORY, default_branch: 'main', description })
  }
  const { empty } = checked(isRepository, (await send('GET', base, [200])).json)

  say(
    empty
      ? 'a push of the first commit, and a branch with one more'
      : 'a push of a branch with one more commit',
  )
  await runGit('init', '--quiet', '--initial-branch=main', '.')
  await runGit('remote', 'add', 'origin', `${url}/${user}/${REPOSITORY}.git`)
  if (empty) {
    await writeFile(join(workDir, 'README.md'), '# Demo\n')
    await runGit('add', '--', 'README.md')
    await runGit('commit', '--quiet', '-m', 'Begin')
    await runGit('push', '--quiet', 'origin', 'HEAD:refs/heads/main')
  }
  await runGit('fetch', '--quiet', 'origin', 'main')
  const at = new Date().toISOString()
  const branch = `hello-${at.replace(/\W/g, '-')}`
  await runGit('checkout', '--quiet', '-B', branch, 'FETCH_HEAD')
  await writeFile(join(workDir, 'hello.txt'), `Hello at ${at}\n`)
  await runGit('add', '--', 'hello.txt')
  await runGit('commit', '--quiet', '-m', 'Say hello')
  await runGit('push', '--quiet', 'origin', branch)

  say(`a rule for main: the check ${CHECK} must succeed, and one approval is required`)
  const rule = {
    rule_name: 'main',
    enable_status_check: true,
    status_check_contexts: [CHECK],
    required_approvals: 1,
  }
  const { status: protection } = await send('GET', `${base}/branch_protections/main`, [200, 404])
  if (protection === 404) await send('POST', `${base}/branch_protections`, [201], rule)
  const { status: reviewer } = await send('GET', `/api/v1/users/${REVIEWER}`, [200, 404])
  if (reviewer === 404) {
    const password = randomBytes(15).toString('base64url')
    const account = { username: REVIEWER, email: `${REVIEWER}@example.org`, password }
    await send('POST', '/api/v1/admin/users', [201], account)
  }
  await send('PUT', `${base}/collaborators/${REVIEWER}`, [204], { permission: 'write' })

  const opening = { head: branch, base: 'main', title: 'Say hello', body: 'Opened by `mergelog demo`.' }
  const { number, head } = checked(isPull, (await send('POST', `${base}/pulls`, [201], opening)).json)
  const pull = `${base}/pulls/${number}`
  say(`a pull request: #${number}`)

  say(`the check ${CHECK} fails, so a merge is refused`)
  const report = (state: string, description: string) =>
    send('POST', `${base}/statuses/${head.sha}`, [201], { state, context: CHECK, description })
  await report('failure', 'one test failed')
  const refused = await send('POST', `${pull}/merge`, [405], { Do: 'merge' })
  print(`   ${checked(isProblem, refused.json).message}`)

  say(`a review: ${REVIEWER} approves`)
  await send('POST', `${pull}/reviews`, [200], { event: 'APPROVED', body: 'Good.' }, REVIEWER)

  say('a scheduled merge: it waits for the check')
  await send('POST', `${pull}/merge`, [201], { Do: 'merge', merge_when_checks_succeed: true })
  await send('GET', `${pull}/merge`, [404])

  say('the check passes, and the server merges')
  await report('success', 'all tests passed')
  for (const end = Date.now() + MERGE_MS; (await send('GET', `${pull}/merge`, [204, 404])).status === 404; ) {
    if (Date.now() > end) throw new CommandFailed(`#${number} was not merged in ${MERGE_MS / 1000} s`)
    await delay(50)
  }
  await runGit('fetch', '--quiet', 'origin', 'main')
  print(await runGit('log', '--graph', '--oneline', '--max-count=4', 'FETCH_HEAD'))
  const merge = await runGit('rev-parse', 'FETCH_HEAD')

  say('its history: every change is an event')
  const history = checked(isHistory, (await send('GET', `${pull}/history`, [200])).json)
  for (const { revision, type, at, actor } of history) {
    print(`   ${`${revision}`.padStart(2)}  ${at}  ${type.padEnd(24)} ${actor?.login ?? 'the server'}`)
  }
  const merged = history.findLast(({ type }) => type === 'PullRequestMerged')
  if (merged === undefined) throw new CommandFailed(`the history of #${number} has no merge`)

  say('a replay shows it as it was before the merge, and after it')
  for (const revision of [merged.revision - 1, merged.revision]) {
    const then = await pullAt(`${pull}/replay?revision=${revision}`)
    print(`   after revision ${revision}: state ${then.state}, merged ${then.merged}`)
    if (then.merged !== (revision === merged.revision)) throw new CommandFailed('the replay is wrong')
  }

  const query = '/cosmos/upgrade/v1beta1/current_plan'
  const planned = checked(isPlan, (await send('GET', query, [200])).json).plan
  say(
    planned === null ? `an upgrade plan: ${PLAN.name}` : `the upgrade plan ${planned.name} is there already`,
  )
  if (planned === null) await send('PUT', '/api/v1/admin/upgrade/plan', [200], PLAN)
  const overHttp = checked(isPlan, (await send('GET', query, [200])).json).plan
  const overGrpc = checked(isPlan, await currentPlanOverGrpc(server)).plan
  for (const [way, plan] of [
    [`HTTP  ${query}`, overHttp],
    [`gRPC  ${server.grpc.address} cosmos.upgrade.v1beta1.Query/CurrentPlan`, overGrpc],
  ] as const) {
    print(`   ${way}: ${plan?.name} at height ${plan?.height}`)
  }
  if (overHttp?.name !== overGrpc?.name) throw new CommandFailed('gRPC and HTTP have different plans')

  const page = `${url}/ui/${user}/${REPOSITORY}/pulls/${number}`
  const urls = [page, `${url}${query}`, `${url}/api/docs`]
  say('open these: the story of the pull request with a slider to any moment, the plan, the documentation')
  for (const one of urls) print(`   ${one}`)
  return {
    repository: `${user}/${REPOSITORY}`,
    continued: found.status === 200,
    pull: number,
    head: head.sha,
    merge,
    events: history.map(({ type }) => type),
    plan: overGrpc?.name,
    urls,
  }
}
