/** Appends share one call that stays open. The servers here give answers that the double never gives. */
import sharedPb from '@eventstore/db-client/generated/shared_pb.js'
import statusPb from '@eventstore/db-client/generated/status_pb.js'
import streamsService from '@eventstore/db-client/generated/streams_grpc_pb.js'
import streamsPb from '@eventstore/db-client/generated/streams_pb.js'
import { Server, ServerCredentials, type ServerDuplexStream } from '@grpc/grpc-js'
import anyPb from 'google-protobuf/google/protobuf/any_pb.js'
import emptyPb from 'google-protobuf/google/protobuf/empty_pb.js'
import t, { type Test } from 'tap'
import { StoreUnavailable } from '../../../../src/events/store/event-store.ts'
import { openEventStoreDb } from '../../../../src/events/store/eventstoredb/eventstoredb.ts'
import { newEvent, newStream } from '../../event-store-contract.ts'

type Call = ServerDuplexStream<streamsPb.BatchAppendReq, streamsPb.BatchAppendResp>

/** Starts a server. `answer` gets each append, the number of its call from 1, and its number within the call from 1. */
async function serving(
  t: Test,
  answer: (call: Call, request: streamsPb.BatchAppendReq, callNumber: number, appendNumber: number) => void,
) {
  const server = new Server()
  let calls = 0
  server.addService(streamsService.StreamsService, {
    batchAppend(call: Call) {
      calls += 1
      const callNumber = calls
      let appends = 0
      call.on('data', (request: streamsPb.BatchAppendReq) => {
        appends += 1
        answer(call, request, callNumber, appends)
      })
      call.on('end', () => call.end())
    },
  })
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error === null ? resolve(bound) : reject(error),
    )
  })
  t.teardown(() => server.forceShutdown())
  const open = (deadline: number) => {
    const store = openEventStoreDb(`esdb://127.0.0.1:${port}?tls=false&defaultDeadline=${deadline}`)
    t.teardown(() => store.close())
    return store
  }
  return { open, calls: () => calls }
}

function confirm(call: Call, request: streamsPb.BatchAppendReq): void {
  const success = new streamsPb.BatchAppendResp.Success().setCurrentRevision('0')
  success.setPosition(new sharedPb.AllStreamPosition().setCommitPosition('7').setPreparePosition('7'))
  call.write(answerTo(request).setSuccess(success))
}

const answerTo = (request: streamsPb.BatchAppendReq) =>
  new streamsPb.BatchAppendResp().setCorrelationId(request.getCorrelationId())

const append = (store: ReturnType<typeof openEventStoreDb>) =>
  store.append(newStream(), [newEvent()], 'no-stream')

t.test('appends at the same time share one call, and each gets its own answer', async (t) => {
  const held: (() => void)[] = []
  const { open, calls } = await serving(t, (call, request) => {
    held.push(() => confirm(call, request))
    // The answers come in another order than the appends.
    if (held.length === 20) for (const answer of held.reverse()) answer()
  })
  const store = open(60_000)
  const appended = await Promise.all(Array.from({ length: 20 }, () => append(store)))
  t.ok(appended.every(({ revision, position }) => revision === 0 && position === 7))
  t.equal(calls(), 1)
})

t.test(
  'an append without an answer fails after the deadline, and the others of the call do not',
  async (t) => {
    let silent = ''
    const { open, calls } = await serving(t, (call, request, _, n) => {
      if (n > 1) return confirm(call, request)
      silent = request.getCorrelationId()?.getString() ?? ''
    })
    const store = open(1000)
    await t.rejects(append(store), StoreUnavailable)
    t.match(silent, /-/)
    // On a busy machine an answer may come too late. Then the same append is tried again, as a client would.
    for (let done = false; !done; ) {
      done = await append(store).then(
        () => true,
        () => false,
      )
    }
    t.equal(calls(), 1)
  },
)

t.test(
  'when the server ends the call, pending appends fail, and the next append opens another',
  async (t) => {
    const { open, calls } = await serving(t, (call, request, callNumber) => {
      if (callNumber > 1) confirm(call, request)
      else call.end()
    })
    const store = open(60_000)
    for (const { status, ...outcome } of await Promise.allSettled([append(store), append(store)])) {
      t.equal(status, 'rejected')
      t.type('reason' in outcome && outcome.reason, StoreUnavailable)
    }
    t.match(await append(store), { revision: 0, position: 7 })
    t.equal(calls(), 2)
  },
)

t.test('a node that is not ready gives StoreUnavailable', async (t) => {
  const details = new anyPb.Any()
  details.pack(new emptyPb.Empty().serializeBinary(), 'google.protobuf.Empty')
  const status = new statusPb.Status().setMessage('Server Is Not Ready').setDetails(details)
  const { open } = await serving(t, (call, request) => call.write(answerTo(request).setError(status)))
  const failed = append(open(60_000))
  await t.rejects(failed, StoreUnavailable)
  await t.rejects(failed, /Server Is Not Ready/)
})

t.test('an unknown refusal is an error, not a success', async (t) => {
  const status = new statusPb.Status().setMessage('so it is')
  const { open } = await serving(t, (call, request) => call.write(answerTo(request).setError(status)))
  const failed = append(open(60_000))
  await t.rejects(failed, /refused an append: so it is/)
  t.notOk(await failed.catch((error: unknown) => error instanceof StoreUnavailable))
})
