import { mkdir, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import t from 'tap'
import type { DomainEvent } from '../../../src/events/domain-events.ts'
import type { RecordedEvent } from '../../../src/events/store/event-store.ts'
import { createNamedFiles } from '../../../src/maintenance/verify/named-files.ts'

const uploader = { id: 1, login: 'alice' }
const issue = { repoId: 1, index: 1 }
const comment = { ...issue, commentId: 1 }
const release = { releaseId: 1, repoId: 1, draft: false }
const file = (uuid: string) => ({ id: 1, uuid, name: 'x', size: 3, uploader, createdAt: '' })

/** In the format of the log. */
const recorded = (event: DomainEvent | { type: string; data: object }): RecordedEvent => ({
  id: '',
  stream: 'issue-1.1',
  revision: 0,
  position: 0,
  metadata: { actor: null, at: '', correlationId: '', causationId: '', schema: 1 },
  ...event,
})

const NO_LOG = { async *readAll() {} }

async function missing(t: { testdir(): string }, later: DomainEvent[]): Promise<string[]> {
  const named = createNamedFiles({ dataDir: t.testdir(), deep: false })
  const events: (DomainEvent | { type: string; data: object })[] = [
    { type: 'AttachmentAdded', data: { ...comment, attachment: file('aa-comment') } },
    { type: 'IssueFileAdded', data: { ...issue, attachment: file('bb-issue') } },
    { type: 'ReleaseAssetAdded', data: { ...release, asset: file('cc-release') } },
    { type: 'AttachmentAdded', data: { ...comment, repoId: 2, attachment: file('dd-other') } },
    {
      type: 'LfsObjectsAdded',
      data: { repoId: 1, cause: 'upload', objects: [{ oid: 'e'.repeat(64), size: 3 }] },
    },
    { type: 'NotEvenKnown', data: {} },
    ...later,
  ]
  for (const event of events) named.add(recorded(event))
  const { files, problems } = await named.compare(NO_LOG, 0)
  if (files !== 0 || problems.some(({ problem }) => problem !== 'it is missing')) throw new Error('found')
  return problems.map(({ path }) => path).sort()
}

const COMMENT = 'attachments/aa/aa-comment'
const ISSUE = 'attachments/bb/bb-issue'
const RELEASE = 'attachments/cc/cc-release'
const OTHER = 'attachments/dd/dd-other'
const LARGE = `git/1.git/lfs/objects/ee/ee/${'e'.repeat(64)}`

t.test('the files of comments, issues, releases and git LFS are named until they are deleted', async (t) => {
  t.strictSame(await missing(t, []), [COMMENT, ISSUE, RELEASE, OTHER, LARGE])
  const deleted: [DomainEvent, string[]][] = [
    [
      { type: 'AttachmentDeleted', data: { ...comment, attachmentId: 1, uuid: 'aa-comment' } },
      [ISSUE, RELEASE, OTHER, LARGE],
    ],
    [
      { type: 'IssueFileDeleted', data: { ...issue, attachmentId: 1, uuid: 'bb-issue' } },
      [COMMENT, RELEASE, OTHER, LARGE],
    ],
    [
      { type: 'ReleaseAssetDeleted', data: { ...release, assetId: 1, uuid: 'cc-release' } },
      [COMMENT, ISSUE, OTHER, LARGE],
    ],
    [
      {
        type: 'TextsErased',
        data: { ...issue, commentId: null, comments: [1], files: ['aa-comment'], by: null, at: '' },
      },
      [ISSUE, RELEASE, OTHER, LARGE],
    ],
    [
      { type: 'CommentsDeleted', data: { ...issue, comments: [1], files: ['aa-comment'] } },
      [ISSUE, RELEASE, OTHER, LARGE],
    ],
    [
      { type: 'IssueDeleted', data: { ...issue, closed: false, milestone: null, files: ['bb-issue'] } },
      [COMMENT, RELEASE, OTHER, LARGE],
    ],
    [{ type: 'RepositoryDeleted', data: { repoId: 1, owner: uploader, name: 'one' } }, [OTHER]],
  ]
  for (const [event, left] of deleted) t.strictSame(await missing(t, [event]), left, event.type)
})

t.test('a file with another size is named, and one that a later event deletes is not', async (t) => {
  const dataDir = t.testdir()
  const named = createNamedFiles({ dataDir, deep: false })
  for (const uuid of ['aa-right', 'bb-short', 'cc-gone']) {
    named.add(recorded({ type: 'IssueFileAdded', data: { ...issue, attachment: file(uuid) } }))
  }
  for (const [path, text] of [
    ['attachments/aa/aa-right', '123'],
    ['attachments/bb/bb-short', '12'],
  ] as const) {
    await mkdir(dirname(join(dataDir, path)), { recursive: true })
    await writeFile(join(dataDir, path), text)
  }
  const gone = recorded({ type: 'IssueFileDeleted', data: { ...issue, attachmentId: 1, uuid: 'cc-gone' } })
  const log = {
    async *readAll() {
      yield gone
    },
  }
  t.strictSame(await named.compare(log, 0), {
    files: 1,
    problems: [{ path: 'attachments/bb/bb-short', problem: 'it has 2 bytes, not 3' }],
  })
})
