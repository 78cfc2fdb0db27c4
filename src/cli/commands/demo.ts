/**
 * `mergelog demo`: a short tour with real data on a running server. It pushes this repository's own history,
 * opens a pull request, merges it, fetches the merge and prints the recorded events. It fails when any result
 * is not the expected one.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import type { Command } from 'commander'
import { Type } from 'typebox'
import { checked, checkOf } from '../../checked-json.ts'
import { loadConfig } from '../../config.ts'
import { decode } from '../../events/codec.ts'
import type { EventStore, RecordedEvent } from '../../events/event-store.ts'
import { gitStream, pullStream, repositoryStream } from '../../events/streams.ts'
import { projectFile } from '../../project-files.ts'
import { CommandFailed } from '../explain.ts'
import { LOG_SETTINGS, usage } from '../help.ts'
import { withLog } from '../open-log.ts'
import { serverUrl } from '../running-server.ts'
import { urlOption } from '../server-options.ts'

const PROJECT = fileURLToPath(projectFile(''))
const run = promisify(execFile)

interface Demo {
  url: string
  user: string
  password: string
  /** Prints a line for people. */
  print: (line: string) => void
}

/** Runs git in `dir` under the demo's own name. git never asks for a password on the terminal. */
async function git(dir: string, ...args: string[]): Promise<string> {
  const identity = ['-c', 'user.name=Mergelog demo', '-c', 'user.email=demo@localhost']
  const { stdout } = await run('git', [...identity, ...args], {
    cwd: dir,
    env: { ...process.env, GIT_TERMINAL_PROMPT: '0' },
    maxBuffer: 256 * 1024 * 1024,
  })
  return stdout.trim()
}

/** Sends a request and checks the status. Resolves to the answer's JSON, or undefined when it is empty. */
async function call(
  demo: Demo,
  method: string,
  path: string,
  status: number,
  body?: object,
): Promise<unknown> {
  const authorization = `Basic ${Buffer.from(`${demo.user}:${demo.password}`).toString('base64')}`
  const answer = await fetch(`${demo.url}/api/v1${path}`, {
    method,
    headers: { authorization, ...(body && { 'content-type': 'application/json' }) },
    ...(body && { body: JSON.stringify(body) }),
  })
  const text = await answer.text()
  assert.equal(answer.status, status, `${method} ${path}: ${answer.status} ${text}`)
  return text === '' ? undefined : JSON.parse(text)
}

const isRepository = checkOf(Type.Object({ id: Type.Integer() }))
const isPull = checkOf(Type.Object({ number: Type.Integer() }))

/** Resolves to what the demo created. */
async function play(demo: Demo, events: EventStore, workDir: string) {
  const { print } = demo
  const say = (line: string) => print(`\n=> ${line}`)
  const shallow = await git(PROJECT, 'rev-parse', '--is-shallow-repository')
  assert.equal(shallow, 'false', 'this clone is shallow: run "git fetch --unshallow" first')
  const history = Number(await git(PROJECT, 'rev-list', '--count', 'HEAD'))
  const tip = await git(PROJECT, 'rev-parse', 'HEAD')

  const name = `demo-${Date.now()}`
  const repo = `/repos/${demo.user}/${name}`
  say(`a repository: ${demo.user}/${name}`)
  const repository = await call(demo, 'POST', '/user/repos', 201, {
    name,
    description: 'Mergelog, by Mergelog',
  })
  const { id: repoId } = checked(isRepository, repository)
  const [created] = (await eventsOf(events, repositoryStream(repoId))).map(decode)
  if (created?.type !== 'RepositoryCreated' || created.data.name !== name) {
    await call(demo, 'DELETE', repo, 204)
    throw new CommandFailed(`the environment names another log than that of the server at ${demo.url}`)
  }

  const remote = new URL(`${demo.url}/${demo.user}/${name}.git`)
  remote.username = demo.user
  remote.password = demo.password
  say(`this project's own history: ${history} commits up to ${tip.slice(0, 10)}`)
  await git(PROJECT, 'push', '--quiet', remote.href, `${tip}:refs/heads/main`)

  say('a branch with one more commit')
  await git(workDir, 'clone', '--quiet', remote.href, '.')
  assert.equal(await git(workDir, 'rev-parse', 'origin/main'), tip, 'the clone has the pushed commit')
  await git(workDir, 'checkout', '--quiet', '-b', 'demo')
  await writeFile(join(workDir, 'DEMO.md'), 'Mergelog hosts its own history.\n')
  await git(workDir, 'add', '--', 'DEMO.md')
  await git(workDir, 'commit', '--quiet', '-m', 'Add DEMO.md')
  const head = await git(workDir, 'rev-parse', 'HEAD')
  await git(workDir, 'push', '--quiet', 'origin', 'demo')

  say('a pull request')
  const title = 'Say who hosts this'
  const opening = { head: 'demo', base: 'main', title, body: 'Opened by `npm run demo`.' }
  const opened = await call(demo, 'POST', `${repo}/pulls`, 201, opening)
  const { number } = checked(isPull, opened)
  const answer = checked(isPull, await call(demo, 'GET', `${repo}/pulls/${number}`, 200))
  const expected = {
    number,
    title,
    state: 'open',
    merged: false,
    mergeable: true,
    merge_base: tip,
    additions: 1,
    deletions: 0,
    changed_files: 1,
  }
  const pull = Object.fromEntries(Object.keys(expected).map((key) => [key, Reflect.get(answer, key)]))
  assert.deepEqual(pull, expected)
  print(JSON.stringify(pull, undefined, 2))

  say('merged')
  await call(demo, 'GET', `${repo}/pulls/${number}/merge`, 404)
  await call(demo, 'POST', `${repo}/pulls/${number}/merge`, 200, { Do: 'merge' })
  await call(demo, 'GET', `${repo}/pulls/${number}/merge`, 204)
  await git(workDir, 'fetch', '--quiet')
  assert.equal(await git(workDir, 'rev-parse', 'origin/main^1'), tip, 'the first parent is the old base')
  assert.equal(await git(workDir, 'rev-parse', 'origin/main^2'), head, 'the second parent is the head')
  assert.equal(
    await git(workDir, 'log', '-1', '--format=%B', 'origin/main'),
    `Merge pull request '${title}' (#${number}) from demo into main`,
  )
  assert.equal(Number(await git(workDir, 'rev-list', '--count', 'origin/main')), history + 2)
  print(await git(workDir, 'log', '--graph', '--oneline', '--max-count=5', 'origin/main'))

  say('the events in the log')
  const recorded: RecordedEvent[] = []
  for (const stream of [repositoryStream(repoId), gitStream(repoId), pullStream(repoId, number)]) {
    recorded.push(...(await eventsOf(events, stream)))
  }
  for (const event of recorded) print(lineOf(event))
  const types = recorded.map(({ type }) => type)
  assert.deepEqual(types, [
    'RepositoryCreated',
    'RefsUpdated',
    'RefsUpdated',
    'RefsUpdated',
    'PullRequestOpened',
    'MergeStarted',
    'PullRequestMerged',
  ])
  say('everything is as expected')
  const merge = await git(workDir, 'rev-parse', 'origin/main')
  return { repository: `${demo.user}/${name}`, pull: number, head, merge, events: types }
}

async function eventsOf(events: EventStore, stream: string): Promise<RecordedEvent[]> {
  return await Array.fromAsync(events.readStream(stream))
}

function lineOf({ stream, type, revision, position, metadata }: RecordedEvent): string {
  const who = metadata.actor?.login ?? 'the server'
  const where = `${`${position}`.padStart(8)}  ${stream}@${revision}`.padEnd(32)
  return [where, type.padEnd(20), who, metadata.at].join(' ')
}

interface DemoArguments {
  url?: string
  user: string
  password?: string
  json?: true
}

async function demo(options: DemoArguments): Promise<void> {
  const config = loadConfig(process.env)
  const password = options.password ?? config.adminPassword
  if (password === undefined) throw new CommandFailed('ADMIN_PASSWORD or --password is needed; see --help')
  const url = options.url ?? serverUrl(config)
  const health = await fetch(`${url}/healthz`).catch(() => undefined)
  if (health?.status !== 200) {
    throw new CommandFailed(`no healthy server at ${url}: run "npm start" first`)
  }

  const print = options.json ? () => {} : (line: string) => console.log(line)
  const workDir = await mkdtemp(join(tmpdir(), 'mergelog-demo-'))
  try {
    const demo = { url, user: options.user, password, print }
    const result = await withLog(config, (events) => play(demo, events, workDir))
    if (options.json) console.log(JSON.stringify(result))
  } catch (error) {
    // The message says which result was not the expected one.
    if (error instanceof assert.AssertionError) throw new CommandFailed(error.message, { cause: error })
    throw error
  } finally {
    await rm(workDir, { recursive: true, force: true })
  }
}

export function addDemo(program: Command): void {
  const examples = ['mergelog demo', 'mergelog demo --url http://127.0.0.1:8080 --user alice --password …']
  const environment = ['HOST', 'PORT', 'PUBLIC_URL', 'ADMIN_PASSWORD', ...LOG_SETTINGS] as const
  program
    .command('demo')
    .description("push this project's own history to a running server, open a pull request and merge it")
    .addOption(urlOption())
    .option('--user <name>', 'the user who does it', 'admin')
    .option('--password <password>', "that user's password (default: ADMIN_PASSWORD)")
    .option('--json', 'print only the result, as JSON')
    .addHelpText('after', usage(examples, environment))
    .action(demo)
}
