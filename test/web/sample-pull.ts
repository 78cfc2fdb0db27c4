import { startPulls } from '../commands/pull-requests/pull-repository.ts'
import type { Test } from '../git-client.ts'
/** A pull request with many kinds of events. */

export const HOSTILE_TITLE = `<script>window.hacked=1</script><img src=x onerror="window.hacked=1"> \u202eevil\u202c ${'寬'.repeat(160)}`
const HOSTILE_FILE = 'a <b onclick=x>"&\'\té.txt'

const OLD = `export function greet(name) {
  console.log('Hello ' + name)
}

export const answer = 41
`
const NEW = `/** Greets somebody, politely. */
export function greet(name, greeting = 'Hello') {
  console.log(\`\${greeting}, \${name}!\`)
}

export const answer = 42
`

/** Creates the pull request, which is open at the end. Resolves to the server, the repository and its number. */
export async function startSamplePull(test: Test) {
  const pulls = await startPulls(test)
  const app = await pulls.repository(test, 'app', { writers: ['bob', 'carol'] })
  await app.commit('Code to change', { 'greet.js': OLD })
  await app.push('main')
  await app.branch('polite', { 'greet.js': NEW })
  const bug = await app.label('bug', { color: '#d73a4a' })
  const kind = await app.label('kind/feature', { color: '#0e8a16' })
  const milestone = await app.milestone('1.0')
  const title = 'Greetings that are polite'
  const body = 'So far everybody is greeted alike.\n\nThis asks *how* to greet, and says it nicely.'
  const index = await app.open('polite', { title, body, labels: [bug] }, 'bob')
  const at = `issues/${index}`
  const comment = (login: string, text: string) => app.call(login, 'POST', `${at}/comments`, { body: text })
  await comment('carol', 'Nice. Is <b>42</b> the right answer?\nI am not sure.')
  await app.edit(index, { title: HOSTILE_TITLE }, 'bob')
  await app.edit(index, { title: 'Greet politely, and find the answer' }, 'bob')
  await app.edit(index, { labels: [kind], milestone, assignees: ['bob', 'carol'] })
  await app.edit(index, { due_date: '2026-12-24T00:00:00Z' })
  await app.branch('polite', { [HOSTILE_FILE]: '<script>window.hacked=1</script>\r\n' }, 'polite')
  await app.edit(index, { body: `${body}\n\nIt also adds a file with an odd name.` }, 'bob')
  await app.close(index)
  await app.reopen(index)
  await comment('bob', 'It is. All done!')
  return { ...pulls, app, index, page: `/ui/alice/app/pulls/${index}` }
}

export type Story = Awaited<ReturnType<typeof startSamplePull>>

/** The newest revision. */
export const lastOf = async ({ app, index }: Pick<Story, 'app' | 'index'>) =>
  (await app.eventsOf(index)).length - 1
