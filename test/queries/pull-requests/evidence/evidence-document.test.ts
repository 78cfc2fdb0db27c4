import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import {
  type EvidenceDocument,
  isEvidenceDocument,
} from '../../../../src/api/pull-requests/evidence-document.ts'
import { canonicalJson } from '../../../../src/domain/canonical-json.ts'
import {
  formatVerifierKey,
  signNote,
  verifierKeyOf,
} from '../../../../src/domain/transparency/signed-note.ts'
import type { RecordedEvent } from '../../../../src/events/store/event-store.ts'
import { signCheckpoint } from '../../../../src/processes/log-checkpoints.ts'
import { openLogTree } from '../../../../src/projections/installation/log-tree.ts'
import { documentProblem } from '../../../../src/queries/pull-requests/evidence/check-document.ts'
import { createLogCheckpoints } from '../../../../src/services/log-checkpoints.ts'
import { checked } from '../../../../src/storage/checked-json.ts'
import { mergelog } from '../../../cli/command-line.ts'
import { startPulls } from '../../../commands/pull-requests/pull-repository.ts'
import { newLogSigner } from '../../../log-signer.ts'
import { ADMIN_PASSWORD } from '../../../start-server.ts'

const directory = await mkdtemp(join(tmpdir(), 'mergelog-evidence-'))
t.teardown(() => rm(directory, { recursive: true, force: true }))
const { signer, key } = await newLogSigner(directory)
const { server, repository } = await startPulls(t)
const { services } = server
const { stored } = services.texts
const tree = openLogTree(services.readStore, stored)
await tree.prepare()
// As with LOG_SIGNING_KEY, which needs a public URL that the clients of the test could not reach.
const checkpoints = createLogCheckpoints(stored, tree, signer)
services.checkpoints = checkpoints
const HOUR = 3_600_000
let hours = 0

/** Signs a checkpoint of the log as it is now. */
async function sign(): Promise<void> {
  hours += 2
  await signCheckpoint(services, checkpoints, new AbortController().signal, Date.now() + hours * HOUR)
}

/** Merges a pull request with checks, reviews, comments and a protection. */
async function merged(t: Parameters<typeof repository>[0], name: string) {
  const own = await repository(t, name, { writers: ['bob', 'carol'] })
  const { branch, open, merge, protect, postStatus, call } = own
  await protect('main', { enable_status_check: true, status_check_contexts: ['ci'], required_approvals: 1 })
  const head = await branch('topic', { a: 'a' })
  const index = await open('topic', { body: 'Xq7:BODY' })
  await postStatus(head, 'success')
  await call('bob', 'POST', `issues/${index}/comments`, { body: 'Xq7:COMMENT' })
  const { body } = await call('carol', 'POST', `pulls/${index}/reviews`, {
    event: 'REQUEST_CHANGES',
    body: 'Xq7:NO',
  })
  await call('alice', 'POST', `pulls/${index}/reviews/${body.id}/dismissals`, { message: 'Xq7:SETTLED' })
  await call('carol', 'POST', `pulls/${index}/reviews`, { event: 'APPROVED', body: 'Xq7:YES' })
  if ((await merge(index, {}, 'bob')).status !== 200) throw new Error('it is not merged')
  const fetchDocument = async () => {
    const answer = await call('alice', 'GET', `pulls/${index}/evidence?format=document`)
    if (answer.status !== 200) throw new Error(`${answer.status} ${answer.text}`)
    return answer.text
  }
  return { ...own, index, fetchDocument }
}

const documentIn = (text: string): EvidenceDocument => checked(isEvidenceDocument, JSON.parse(text))

t.test('evidence.3: canonical JSON with the stored events and a proof of each', async (t) => {
  const { fetchDocument, call, index } = await merged(t, 'kept')
  await sign()
  const text = await fetchDocument()
  const document = documentIn(text)
  t.equal(text, `${canonicalJson(document)}\n`)
  t.match(document, {
    format: 'mergelog-evidence/1',
    repository: 'alice/kept',
    checkpoint: String,
    unproven: null,
  })
  const { facts } = document
  const plain = await call('alice', 'GET', `pulls/${index}/evidence`)
  t.match(plain.body, facts, 'the facts of the plain view')
  t.equal(plain.headers.get('content-type'), 'application/json; charset=utf-8')
  const types = document.events.map(({ type }) => type)
  for (const type of [
    'BranchProtectionSet',
    'CommitStatusPosted',
    'ReviewDismissed',
    'MergeStarted',
    'RefsUpdated',
  ]) {
    t.ok(types.includes(type), type)
  }
  t.notOk(types.includes('CommentAdded'))
  t.notMatch(text, 'Xq7:', 'texts are sealed')
  t.ok(document.omitted.length > 0, 'comments are named by their hashes')
  t.equal(await documentProblem(document, key), undefined)
})

t.test('evidence.3: it is for admins of the repository; another format gives 422', async (t) => {
  const { call, index } = await merged(t, 'admins')
  const path = `pulls/${index}/evidence?format=`
  t.equal((await call('bob', 'GET', `${path}document`)).status, 403)
  t.equal((await call(null, 'GET', `${path}document`)).status, 401)
  t.equal((await call('admin', 'GET', `${path}document`)).status, 200)
  t.match(await call('alice', 'GET', `${path}pdf`), {
    status: 422,
    message: 'format: must be document, or absent',
  })
})

t.test('evidence.3: before a checkpoint covers it, and without a key, it says so', async (t) => {
  const { fetchDocument } = await merged(t, 'uncovered')
  const early = documentIn(await fetchDocument())
  t.match(early, { checkpoint: null, unproven: /no signed checkpoint covers all events yet/ })
  t.equal(await documentProblem(early, undefined), undefined, 'hashes and facts can be checked')
  t.match(await documentProblem(early, key), /it has no checkpoint: no signed checkpoint covers/)
  await sign()
  t.equal(await documentProblem(documentIn(await fetchDocument()), key), undefined)

  const unsigned = await startPulls(t)
  const own = await unsigned.repository(t, 'unsigned')
  await own.branches('topic')
  const index = await own.open('topic')
  await own.merge(index)
  const { body } = await own.call('alice', 'GET', `pulls/${index}/evidence?format=document`)
  t.equal(body, undefined, 'it is no plain JSON')
  const { text } = await own.call('alice', 'GET', `pulls/${index}/evidence?format=document`)
  t.match(documentIn(text), {
    checkpoint: null,
    unproven: 'the log is not signed: LOG_SIGNING_KEY is not set',
  })
})

t.test('evidence.4: tampering is detected', async (t) => {
  const { fetchDocument } = await merged(t, 'tampered')
  await sign()
  const text = await fetchDocument()
  const change = (edit: (document: EvidenceDocument) => void) => {
    const document = documentIn(text)
    edit(document)
    return documentProblem(document, key)
  }
  const eventOf = ({ events }: EvidenceDocument, type: string) => {
    const found = events.find((event) => event.type === type)
    if (found === undefined) throw new Error(`no ${type}`)
    return found
  }
  const flipped = (base64: string, at: number) => {
    const bytes = Buffer.from(base64, 'base64')
    bytes.writeUInt8(bytes.readUInt8(at) ^ 1, at)
    return bytes.toString('base64')
  }

  t.test('evidence.4: one byte of each event', async (t) => {
    for (const [i, { type }] of documentIn(text).events.entries()) {
      const problem = await change(({ events }) => {
        const event = events[i]
        if (event !== undefined)
          event.data = event.data.replace(/\d/, (digit) => `${(Number(digit) + 1) % 10}`)
      })
      t.match(problem, /was changed: its hash does not match|malformed/, type)
    }
    t.match(
      await change((document) => {
        const event = eventOf(document, 'PullRequestMerged')
        event.metadata = event.metadata.replace(/"at":"2/, '"at":"3')
      }),
      /was changed/,
    )
  })

  t.test('evidence.4: one byte of a proof', async (t) => {
    const problem = await change((document) => {
      const { proof } = eventOf(document, 'MergeStarted')
      if (proof) proof.hashes = proof.hashes.map((hash, i) => (i === 0 ? flipped(hash, 5) : hash))
    })
    t.match(problem, /is not in the log of its checkpoint/)
    t.match(
      await change((document) => {
        eventOf(document, 'MergeStarted').proof = null
      }),
      /is not in the log/,
    )
  })

  t.test('evidence.4: one byte of the signature or of the signed root', async (t) => {
    const signature = await change((document) => {
      document.checkpoint = (document.checkpoint ?? '').replace(
        /(— \S+ )(\S+)/u,
        (_, name, base64) => name + flipped(base64, 20),
      )
    })
    t.match(signature, /its checkpoint is not genuine: the signature/)
    const root = await change((document) => {
      const lines = (document.checkpoint ?? '').split('\n')
      lines[2] = flipped(lines[2] ?? '', 0)
      document.checkpoint = lines.join('\n')
    })
    t.match(root, /its checkpoint is not genuine/)
    const other = await newLogSigner(directory)
    t.match(await documentProblem(documentIn(text), other.key), /it is not signed by/)
    t.match(
      await change((document) => {
        document.checkpoint = null
      }),
      /it has no checkpoint/,
    )
  })

  t.test('evidence.4: a fact that does not follow from the events', async (t) => {
    const problem = await change(({ facts }) => {
      facts.merge.forced = true
    })
    t.equal(problem, 'its facts do not follow from its events')
  })

  t.test('evidence.4: events in another order than that of the log', async (t) => {
    const late = await change((document) => {
      const dismissed = eventOf(document, 'ReviewDismissed')
      document.events = [...document.events.filter((event) => event !== dismissed), dismissed]
    })
    t.match(late, /is not in the order of the log$/)
    const moved = await change((document) => {
      const status = eventOf(document, 'CommitStatusPosted')
      const last = document.events.at(-1)
      document.events = [...document.events.filter((event) => event !== status), status]
      status.position = (last?.position ?? 0) + 1
    })
    t.match(moved, /is not in the order of the log$/, 'a position is not part of the hash')
    const twice = await change(({ events }) => {
      const [first] = events
      if (first !== undefined) events.unshift(first)
    })
    t.match(twice, /is not in the order of the log$/)
  })

  t.test('evidence.4: another move of the repository instead of the one of the merge', async (t) => {
    const { fetchDocument, branch } = await merged(t, 'pushed')
    await branch('later', { b: 'b' })
    await sign()
    const document = documentIn(await fetchDocument())
    const move = document.events.find(({ type }) => type === 'RefsUpdated')
    const others: RecordedEvent[] = []
    for await (const event of stored.readStream(move?.stream ?? '')) {
      if (event.type === 'RefsUpdated' && event.revision < (move?.revision ?? 0)) others.push(event)
    }
    const other = others.at(-1)
    if (other === undefined || move === undefined) throw new Error('no other move')
    const { stream, revision, position, id, type } = other
    const found = await checkpoints.inclusionProof(position)
    document.events = document.events.map((event) =>
      event === move
        ? {
            ...{ stream, revision, position, id, type },
            ...{ data: JSON.stringify(other.data), metadata: JSON.stringify(other.metadata) },
            proof: found === undefined ? null : { index: found.index, hashes: [...found.hashes] },
          }
        : event,
    )
    document.events.sort((a, b) => a.position - b.position)
    const { merge } = document.facts
    if (merge.move !== null) {
      const event = { stream, revision, hash: other.metadata.hash ?? null }
      merge.move = { ...merge.move, event, at: other.metadata.at }
    }
    t.equal(await documentProblem(document, key), 'its facts do not follow from its events')
  })

  t.test('evidence.4: a checkpoint of another log by the same key', async (t) => {
    const { privateKey } = signer
    const other = { name: 'other.example.org', publicKey: key.publicKey }
    const relabeled = verifierKeyOf(other.name, other.publicKey)
    const document = documentIn(text)
    const [noteText = ''] = (document.checkpoint ?? '').split('\n\n')
    document.checkpoint = signNote(`${noteText}\n`, other.name, privateKey)
    t.equal(
      await documentProblem(document, relabeled),
      'its checkpoint is not genuine: it is of the log git.example.org/mergelog, but the key signs other.example.org',
    )
  })

  t.test('evidence.4: a rejection hidden among the events that are named by hashes only', async (t) => {
    const document = documentIn(text)
    const rejection = eventOf(document, 'ReviewSubmitted')
    const hidden = [rejection, eventOf(document, 'ReviewDismissed')]
    for (const { revision, metadata } of hidden) {
      document.omitted.push({ revision, hash: JSON.parse(metadata).hash })
    }
    document.events = document.events.filter((event) => !hidden.includes(event))
    t.equal(await documentProblem(document, key), 'its reviews are not those of the decision')
  })

  t.test('evidence.4: an event that is left out, or of another pull request', async (t) => {
    const without = await change((document) => {
      document.events = document.events.filter(({ type }) => type !== 'ReviewDismissed')
    })
    t.match(without, /^event \d+ of stream pull-\S+ is missing$/)
    const hidden = await change((document) => {
      const { revision } = eventOf(document, 'ReviewDismissed')
      document.events = document.events.filter(({ type }) => type !== 'ReviewDismissed')
      document.omitted.push({ revision, hash: 'another' })
    })
    t.match(hidden, /does not follow the event before it/)
    const other = documentIn(await (await merged(t, 'other')).fetchDocument())
    const foreign = await change((document) => {
      document.events.push(eventOf(other, 'BranchProtectionSet'))
    })
    t.match(foreign, /does not belong to the merge/)
  })
})

t.test('evidence.4: a later erasure does not invalidate it', async (t) => {
  const { fetchDocument, call, index } = await merged(t, 'erased')
  await sign()
  const before = await fetchDocument()
  t.equal((await call('alice', 'POST', `issues/${index}/erase`, { all: true })).status, 204)
  t.equal(await documentProblem(documentIn(before), key), undefined)
  const after = documentIn(await fetchDocument())
  t.same({ ...after, made_at: '' }, { ...documentIn(before), made_at: '' })
})

t.test('evidence.4: mergelog evidence fetches it, and checks it without a server', async (t) => {
  const { fetchDocument, index } = await merged(t, 'terminal')
  await sign()
  const file = join(directory, 'evidence.json')
  const keyFile = join(directory, 'log.pub')
  await writeFile(keyFile, `${formatVerifierKey(key)}\n`)
  const environment = { ADMIN_PASSWORD }
  const asked = ['evidence', `alice/terminal#${index}`, '--url', server.listensAt]
  const printed = await mergelog(asked, environment)
  t.match(printed, { code: 0, stderr: '' })
  t.match(documentIn(printed.stdout), { repository: 'alice/terminal' })
  t.match(await mergelog([...asked, '--out', file], environment), {
    code: 0,
    stdout: '',
    stderr: `Wrote ${file}\n`,
  })
  t.match(await mergelog(['evidence', '--check', file, '--key', keyFile]), {
    code: 0,
    stdout:
      /^Genuine: pull request 1, merged by bob at .*\nIts events are those of the stream pull-\S+\. No event proves the name of the repository, alice\/terminal\.\nThe hashes of \d+ events match.*\n\d+ other events .*\nThe log of git\.example\.org\/mergelog has these events/,
  })
  t.match(
    (await mergelog(['evidence', '--check', file])).stdout,
    /^Consistent: [\s\S]*signature of the checkpoint was not checked/,
  )

  const text = await fetchDocument()
  await writeFile(file, text.replace('"four_eyes":', '"four_eyes":false,"four_eyes":'))
  t.match(await mergelog(['evidence', '--check', file, '--key', keyFile]), {
    code: 1,
    stdout: '',
    stderr: `mergelog: ${file} is not canonical JSON: check the document as the server gave it\n`,
  })
  const document = documentIn(text)
  document.facts.merge.forced = true
  await writeFile(file, canonicalJson(document))
  t.match(await mergelog(['evidence', '--check', file, '--key', keyFile]), {
    code: 1,
    stdout: '',
    stderr: `mergelog: ${file} is not genuine: its facts do not follow from its events\n`,
  })
  await writeFile(file, '{}')
  t.match(await mergelog(['evidence', '--check', file]), { code: 1, stderr: /is not a document of evidence/ })
  await writeFile(file, '{')
  t.match(await mergelog(['evidence', '--check', file]), { code: 1, stderr: /is not a document of evidence/ })
  t.match(await mergelog(['evidence']), { code: 2, stderr: /either a pull request/ })
  t.match(await mergelog(['evidence', 'alice/terminal#99', '--url', server.listensAt], environment), {
    code: 1,
    stderr: /answered 404: pull request not found/,
  })
})
