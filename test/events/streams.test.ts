import t from 'tap'
import * as streams from '../../src/events/streams.ts'

t.test('each stream of Mergelog is recognized by its name', async (t) => {
  const { isStreamName } = streams
  const made = [
    streams.UPGRADE_STREAM,
    streams.LOG_CHECKPOINTS_STREAM,
    streams.checksStream(1, 'abc'),
    streams.lfsLockStream(1, 'abc'),
    streams.sshKeyStream('abc'),
    streams.deployKeyStream(1, 'abc'),
    streams.gpgKeyStream('abc'),
    streams.idsStream('issue'),
    streams.claimStream(streams.claimKeys.login('alice')),
    streams.followStream(1, 2),
    streams.subscriptionStream(1, 2, 3),
    streams.referencesStream(1, '2.3'),
    ...[streams.pullStream, streams.issueStream].map((name) => name(1, 2)),
    ...[
      streams.userStream,
      streams.organizationStream,
      streams.repositoryStream,
      streams.gitStream,
      streams.labelStream,
      streams.milestoneStream,
      streams.readsStream,
      streams.lfsStream,
      streams.webhookStream,
      streams.releaseStream,
      streams.numbersStream,
    ].map((name) => name(1)),
  ]
  for (const name of made) t.ok(isStreamName(name), name)
  const makers = Object.keys(streams).filter(
    (name) => /stream$/i.test(name) && !/^is[A-Z]|^discussion/.test(name),
  )
  t.equal(made.length, makers.length, 'a new one needs its line here, and its category')
  t.notOk(isStreamName('order-7'))
})
