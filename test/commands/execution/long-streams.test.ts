/** Repeated starts and ends cost the same each time, however long the stream is. */
import t from 'tap'
import {
  deployKeys,
  follows,
  gpgKeys,
  lfsLocks,
  sshKeys,
  subscriptions,
} from '../../../src/commands/execution/aggregates.ts'
import { aContext, counted, openStores, writerOf } from '../../stores.ts'

const user = { id: 1, login: 'alice' }
const key = { keyId: 7, title: 'k', key: 'ssh-ed25519 AAAA', fingerprint: 'SHA256:x', readOnly: false }
const lock = { id: 3, path: 'a.psd', owner: user, ref: null }
const part = { longId: 'A', publicKey: '', madeAt: '', canSign: true, canEncrypt: false }
const gpg = { keyId: 7, user, armored: '', primary: part, subkeys: [], emails: [], expiresAt: null }

t.test('a repeated start reads only new events, however long the stream is', async (t) => {
  const { events, reads } = counted(openStores(t).events)
  const stores = writerOf(events)
  const context = aContext
  const issue = { repoId: 1, index: 2 }
  const ofLock = { repoId: 1, path: 'a.psd' }
  const changes = {
    lock: () =>
      lfsLocks.change(stores, context(), ofLock, 'change', ({ held }) =>
        held === null
          ? [{ type: 'LfsLocked', data: { repoId: 1, lock } }]
          : [{ type: 'LfsUnlocked', data: { repoId: 1, lockId: 3, path: 'a.psd', by: user, forced: false } }],
      ),
    key: () =>
      sshKeys.change(stores, context(), 'digest', 'change', ({ status }) => [
        { type: status === 'none' ? 'SshKeyAdded' : 'SshKeyRemoved', data: { ...key, user } },
      ]),
    deployKey: () =>
      deployKeys.change(stores, context(), { repoId: 1, digest: 'digest' }, 'change', ({ status }) => [
        { type: status === 'none' ? 'DeployKeyAdded' : 'DeployKeyRemoved', data: { ...key, repoId: 1 } },
      ]),
    gpgKey: () =>
      gpgKeys.change(stores, context(), 'A', 'change', ({ status }) =>
        status === 'none'
          ? [{ type: 'GpgKeyAdded', data: { ...gpg, verified: false } }]
          : [{ type: 'GpgKeyRemoved', data: { keyId: 7, user, longId: 'A' } }],
      ),
    subscription: () =>
      subscriptions.change(stores, context(), { ...issue, userId: 1 }, 'change', ({ subscribed }) => [
        { type: subscribed === true ? 'IssueUnsubscribed' : 'IssueSubscribed', data: { ...issue, user } },
      ]),
    star: () =>
      follows.change(stores, context(), { repoId: 1, userId: 1 }, 'change', ({ starred }) => [
        { type: starred ? 'RepositoryUnstarred' : 'RepositoryStarred', data: { repoId: 1, user } },
      ]),
  }
  for (const [name, change] of Object.entries(changes)) {
    for (let i = 0; i < 20; i++) await change()
    const before = reads()
    await change()
    t.ok(reads() - before <= 1, name)
  }
})
