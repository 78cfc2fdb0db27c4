/** A repository with content for every page. */
import { startPulls } from '../commands/pull-requests/pull-repository.ts'
import type { Test } from '../git-client.ts'

export const HOSTILE =
  '<script>window.hacked=1</script><img src="/ui/assets/icon.svg" onload="window.hacked=1">'
/** A picture of one pixel. */
const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==',
  'base64',
)

const README = `# Greetings

See [the guide](notes/guide.md), [outside](https://example.org/), #1 and @bob.

- [x] done
- [ ] to do

| language | word |
| :-- | --: |
| English | Hello |

![own](logo.png) ![foreign](https://img.example/badge.svg)

[![badge](https://img.example/badge.svg)](https://ci.example/)

${HOSTILE}
`

const { stringify } = JSON

/** Resolves to the server, the repository `alice/greetings`, and the paths of its pages. */
export async function startSampleRepository(test: Test) {
  const pulls = await startPulls(test)
  const app = await pulls.repository(test, 'greetings', { writers: ['bob'], description: HOSTILE })
  await app.commit(`Greet ${HOSTILE}\n\nThe body of the message.`, {
    'README.md': README,
    'notes/guide.md': '# Guide\n\nBack to [home](../README.md)\n',
    'src/greet.js': 'export const greet = (name) => console.log(name)\n',
    'src/a <b> & "c".txt': `${HOSTILE}\n`,
    'empty.txt': '',
  })
  await app.push('main')
  const send = async (method: string, path: string, body: object) => {
    const { status, text } = await app.call('alice', method, path, body)
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`)
  }
  const upload = (path: string, content: Buffer) =>
    send('POST', `contents/${path}`, { content: content.toString('base64'), message: `Add ${path}` })
  await upload('logo.png', PNG)
  await upload('data.bin', Buffer.from([0, 1, 2, 0xff]))
  await upload('long.txt', Buffer.from(Array.from({ length: 4500 }, (_, i) => `line ${i + 1}\n`).join('')))
  await send('POST', 'tags', { tag_name: 'v1/first', message: 'First' })
  await send('POST', 'releases', { tag_name: 'v1.0', name: `Release ${HOSTILE}`, body: 'It **greets**.' })
  const bug = await app.label('bug', { color: '#d73a4a', description: HOSTILE })
  await app.label('unused')
  const milestone = await app.milestone('1.0')
  await send('POST', 'issues', {
    title: `Bad name ${HOSTILE}`,
    body: `It *fails*.\n\n${HOSTILE}`,
    labels: [bug],
  })
  await send('POST', 'issues', { title: 'Add Finnish greetings', milestone, assignees: ['bob'] })
  await send('POST', 'issues', { title: 'Over and done' })
  await send('PATCH', 'issues/3', { state: 'closed' })
  await send('POST', 'issues/1/comments', { body: 'Seen, too. See #2' })
  await send('PATCH', 'issues/1', { title: `Worse name ${HOSTILE}` })
  await send('POST', 'issues/1/labels', { labels: ['unused'] })
  await app.branch('topic/one', { 'src/greet.js': 'export const greet = () => `Hi`\n' })
  const pull = await app.open('topic/one', { title: 'Greet shortly', labels: [bug] }, 'bob')
  await app.branch('draft', { 'src/other.js': 'x\n' })
  await app.open('draft', { title: 'WIP: another' })
  await app.branch('stable', { 'stable.txt': 'x\n' })
  await app.branch('merged', { 'src/merged.js': 'x\n' })
  const merged = await app.open('merged', { title: 'Merge me', base: 'stable' })
  const merge = await app.merge(merged)
  if (merge.status !== 200) throw new Error(`${merge.status} ${merge.text}`)
  const made = await pulls.server.fetch('alice', '/api/v1/user/repos', {
    method: 'POST',
    body: stringify({ name: 'blank' }),
  })
  if (!made.ok) throw new Error(`${made.status}`)
  await pulls.repository(test, 'secret', { private: true })
  const commits = await pulls.server.fetch(null, '/api/v1/repos/alice/greetings/commits?limit=1')
  const [, tip = ''] = /"sha":"([0-9a-f]{40})"/.exec(await commits.text()) ?? []
  const repository = '/alice/greetings'
  const file = (name: string) => `${repository}/src/branch/main/${name}`
  const pages = [
    ...['/', '/alice', '/ui/kit', '/user/login', '/alice/blank', repository],
    ...['issues', 'issues?q=nothing', 'pulls', 'pulls?q=greet', 'branches', 'tags', 'releases'].map(
      (part) => `${repository}/${part}`,
    ),
    ...['labels', 'milestones', 'releases/tag/v1.0', 'issues/1', 'commits/branch/main'].map(
      (part) => `${repository}/${part}`,
    ),
    ...['src', 'notes/guide.md', 'notes/guide.md?display=source', 'src/greet.js', 'logo.png', 'data.bin'].map(
      file,
    ),
    file('long.txt?page=2'),
    file('empty.txt'),
    `${repository}/commit/${tip}`,
    ...[`${pull}`, `${merged}`, `${merged}/evidence`].map((part) => `/ui/alice/greetings/pulls/${part}`),
  ]
  return { ...pulls, app, pull, tip, file, pages }
}
