/** Erased texts are missing everywhere: in answers, in the past, and in all files of the data directory. */
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { textKeyCollection } from '../../../../src/auth/text-keys.ts'
import { startTestServer, type TestServer } from '../../../start-server.ts'
import { until } from '../../../until.ts'
import { ERASED, filesWith, posted, verified } from './setup.ts'

async function eraseEverything(t: Test, server: TestServer, repo: string, dataDir: string) {
  const { call, issues, path, comment, comments, file, number } = await posted(server, repo)
  const last = async () => {
    const { body } = await call('GET', `${path}/history?limit=50`)
    return body.at(-1)
  }

  t.test('a dry run lists what would be erased, and changes nothing', async (t) => {
    const { revision } = await last()
    const asked = (body: object) => call('POST', `${path}/erase`, { ...body, dry_run: true })
    t.match(await asked({ comment }), {
      status: 200,
      body: { texts: 3, comments: [comment], files: [file.uuid] },
    })
    t.match(await asked({ all: true }), { status: 200, body: { comments, files: [file.uuid] } })
    t.equal((await asked({ comment: 999_999 })).status, 404)
    t.equal((await last()).revision, revision)
    t.match((await call('GET', `${issues}/comments/${comment}`)).body.body, 'Xq7COMMENT')
  })

  t.test('one comment', async (t) => {
    t.not((await filesWith(join(dataDir, 'attachments'), 'Xq7CONTENT')).length, 0)
    t.equal((await call('POST', `${path}/erase`, { comment })).status, 204)
    const shown = await call('GET', `${issues}/comments/${comment}`)
    t.match(shown.body.body, ERASED)
    t.match(shown.body.assets, [{ name: ERASED, uuid: file.uuid }])
    const download = await call('GET', `/attachments/${file.uuid}`)
    t.equal(download.status, 404)
    t.match(download.text, /the file was erased by alice on/)
    for (const marker of ['Xq7COMMENT', 'Xq7FILE', 'Xq7CONTENT']) {
      t.strictSame(await filesWith(dataDir, marker), [], `${marker} is in no file`)
      t.notMatch((await call('GET', `${path}/history?limit=50`)).text, marker)
    }
    t.match((await call('GET', path)).body, { title: 'Other Xq7SECOND' }, 'other texts stay')
    t.match(await last(), { type: 'ErasureFinished', data: { texts: 3, files: 1 } })
  })

  t.test('all texts of an issue', async (t) => {
    t.equal((await call('POST', `${path}/erase`, { all: true })).status, 204)
    t.match((await call('GET', path)).body, { title: ERASED, body: ERASED })
    t.match((await call('GET', `${path}/replay?revision=0`)).body, { title: ERASED, body: ERASED })
    t.match((await call('GET', `${path}/replay/diff?from=0&to=1`)).status, 200)
    const found = async (q: string) => (await call('GET', `${issues}?state=all&q=${q}`)).body.length
    t.equal(await found('Xq7SECOND'), 0)
    t.equal(await found('erased'), 0, 'nor is it found by what is shown instead')
    const page = await call('GET', `/alice/${repo}/issues/${number}`)
    const timeline = await call('GET', `${path}/timeline?limit=50`)
    t.match(
      timeline.body.find(({ type }: { type: string }) => type === 'change_title'),
      {
        old_title: ERASED,
        new_title: ERASED,
      },
    )
    const lines = await server.fetch('alice', `/api/v1/repos/alice/${path}/history`, {
      headers: { accept: 'application/x-ndjson' },
    })
    const past = [page.text, timeline.text, await lines.text(), (await call('GET', `${path}/comments`)).text]
    for (const marker of ['Xq7TITLE', 'Xq7BODY', 'Xq7SECOND', 'more text']) {
      for (const text of past) t.notOk(text.includes(marker), marker)
      t.strictSame(await filesWith(dataDir, marker), [], `${marker} is in no file`)
    }
  })

  t.test('it can be repeated, and a later text is new', async (t) => {
    const { revision } = await last()
    t.equal((await call('POST', `${path}/erase`, { all: true })).status, 204)
    t.equal((await call('POST', `${path}/erase`, { comment })).status, 204)
    t.equal((await last()).revision, revision, 'nothing is left to erase, so nothing is recorded')
    t.equal((await call('PATCH', path, { title: 'A new title' })).status, 201)
    t.equal((await call('GET', path)).body.title, 'A new title')
    t.match((await last()).data, { oldTitle: ERASED, title: 'A new title' })
    t.equal((await call('PATCH', `${issues}/comments/${comment}`, { body: 'new words' })).status, 200)
    t.equal((await call('GET', `${issues}/comments/${comment}`)).body.body, 'new words')
  })

  t.test('only admins may erase; invalid requests are refused', async (t) => {
    t.equal((await call('POST', `${path}/erase`, { all: true }, null)).status, 401)
    t.equal((await call('POST', `${path}/erase`, { all: true }, 'bob')).status, 403)
    t.equal((await call('POST', `${issues}/999/erase`, { all: true })).status, 404)
    t.equal((await call('POST', `${path}/erase`, { comment: 999_999 })).status, 404)
    t.equal((await call('POST', `${path}/erase`, { comment: 'one' })).status, 422)
    t.equal((await call('GET', path)).body.title, 'A new title', 'nothing was changed')
  })

  t.test('a request must name what to erase, and a misspelt field is refused', async (t) => {
    const refused = [
      undefined,
      {},
      null,
      { comment: null },
      { all: false },
      { all: true, comment },
      { commnet: comment },
      { all: true, comments: comment },
      { all: true, dryrun: true },
      { dry_run: true },
    ]
    for (const body of refused) {
      t.equal((await call('POST', `${path}/erase`, body)).status, 422, JSON.stringify(body) ?? 'no body')
    }
    t.match((await call('POST', `${path}/erase`, { all: true, dryrun: true })).body.message, 'dryrun: ')
    t.equal((await call('GET', path)).body.title, 'A new title', 'nothing was erased')
  })

  t.test('verify succeeds and counts erased texts', async (t) => {
    const report = await verified(t, server)
    t.match(report, { sound: true, log: { lostTexts: undefined } })
    t.ok(report.log.erased > 20, `${report.log.erased} are counted`)
  })
}

t.test('erasing on the embedded stores', async (t) => {
  const server = await startTestServer(t)
  await t.test('texts', (t) => eraseEverything(t, server, 'embedded', server.dataDir))

  await t.test('verify reports a missing key without an erasure', async (t) => {
    const { call, path } = await posted(server, 'missed')
    const { stored, keys } = server.services.texts
    let key: string | undefined
    for await (const { data } of stored.readAll({ direction: 'backwards', maxCount: 3 })) {
      if ('sealed' in data && typeof data.sealed === 'object' && data.sealed !== null && 'key' in data.sealed)
        key = `${data.sealed.key}`
    }
    await server.services.secrets.apply(
      [{ op: 'delete', collection: textKeyCollection, id: key ?? '' }],
      new Map(),
    )
    keys.forget()
    const report = await verified(t, server)
    t.equal(report.sound, false)
    t.match(report.log.lostTexts, [{ problem: 'the key of its text is missing without an erasure' }])
    t.equal((await call('POST', `${path}/erase`, { all: true })).status, 204)
    t.match(await verified(t, server), { sound: true }, 'what is erased then is not missed')
  })

  await t.test('an erasure while verify reads is not reported as a difference', async (t) => {
    const { call, path } = await posted(server, 'meanwhile')
    const { keys } = server.services.texts
    let erasing: Promise<unknown> | undefined
    const report = await verified(t, server, {
      ...keys,
      async find(ids) {
        if (erasing !== undefined) return keys.find(ids)
        const there = async () => [...(await keys.find(ids)).values()].filter(Buffer.isBuffer).length
        const before = await there()
        // verify has its snapshot of the read models now, with all texts.
        erasing = call('POST', `${path}/erase`, { all: true })
        await until('the keys are destroyed', async () => (await there()) < before)
        return keys.find(ids)
      },
    })
    t.match(report, { sound: true })
    await erasing
  })
})
