/** Random commands to reactions, stars, watches and subscriptions. */
import fc from 'fast-check'
import {
  decideAddGpgKey,
  decideRemoveGpgKey,
  decideVerifyGpgKey,
} from '../../src/commands/keys/gpg-key.decider.ts'
import * as keys from '../../src/commands/keys/keys.decider.ts'
import {
  decideEndSubscription,
  decideSubscription,
} from '../../src/commands/notifications/subscription.decider.ts'
import { decideAddReaction, decideRemoveReaction } from '../../src/commands/reactions/reactions.decider.ts'
import { decideFollow, decideUnfollow } from '../../src/commands/repositories/follows/follow.decider.ts'
import { commentRefs, discussionOf } from './discussion-commands.ts'
import { by, command, INDEXES, nextId, oneOf, REPOSITORIES, record, repoId } from './values.ts'

const texts = [
  ...REPOSITORIES.flatMap((repoId) => INDEXES.map((index) => ({ repoId, index, commentId: null }))),
  ...commentRefs,
]

const keyData = (keyId: number, digest: string) => ({
  ...{ keyId, title: `key ${keyId}`, key: digest, fingerprint: digest, readOnly: false },
})

export const socialCommands = [
  command(
    'subscribe',
    record({ to: oneOf(texts), by, wanted: fc.boolean() }),
    (world, { to, by, wanted }) => {
      if (discussionOf(world, to) === undefined) return
      world.subscriptions.change({ ...to, userId: by.id }, by, (state) =>
        wanted ? decideSubscription(state, to, by, wanted) : decideEndSubscription(state, to, by),
      )
    },
  ),
  command(
    'key',
    record({ digest: oneOf(['a', 'b']), by, repoId, adds: fc.boolean(), isOfRepository: fc.boolean() }),
    (world, { digest, by, repoId, adds, isOfRepository }) => {
      const data = keyData(nextId(world), digest)
      const others = { count: 0, hasTitle: false }
      const idIn = (state: keys.SshKeyState | keys.DeployKeyState) =>
        state.status === 'there' ? state.keyId : 0
      if (isOfRepository) {
        if (world.repositories.now(repoId).status !== 'active') return
        const id = idIn(world.deployKeys.now({ repoId, digest }))
        world.deployKeys.change({ repoId, digest }, by, (state) =>
          adds
            ? keys.decideAddDeployKey(state, { ...data, repoId }, others)
            : keys.decideRemoveDeployKey(state, id),
        )
      } else {
        const id = idIn(world.sshKeys.now(digest))
        world.sshKeys.change(digest, by, (state) =>
          adds
            ? keys.decideAddSshKey(state, { ...data, user: by }, others)
            : keys.decideRemoveSshKey(state, id),
        )
      }
    },
  ),
  command(
    'gpg key',
    record({
      longId: oneOf(['A', 'B']),
      by,
      verified: fc.boolean(),
      kind: oneOf(['add', 'verify', 'remove']),
    }),
    (world, { longId, by, verified, kind }) => {
      const part = { longId, publicKey: '', madeAt: '', canSign: true, canEncrypt: false }
      const key = { primary: part, subkeys: [], emails: ['a@example.org'], expiresAt: null, armored: '' }
      const data = { ...key, keyId: nextId(world), user: by, verified }
      const before = world.gpgKeys.now(longId)
      const id = before.status === 'there' ? before.keyId : 0
      const owner = { emails: ['a@example.org'], count: 0, token: '' }
      world.gpgKeys.change(longId, by, (state) => {
        if (kind === 'add') return decideAddGpgKey(state, data, owner)
        return (kind === 'verify' ? decideVerifyGpgKey : decideRemoveGpgKey)(state, id)
      })
    },
  ),
  command(
    'react',
    record({ to: oneOf(texts), by, reaction: oneOf(['+1', 'heart']), adds: fc.boolean() }),
    (world, { to, by, reaction, adds }) => {
      const { commentId } = to
      const isThere =
        commentId === null
          ? discussionOf(world, to) !== undefined
          : world.comments.now({ ...to, commentId }).status === 'there'
      if (!isThere) return
      world.reactions.change(to, by, (state) =>
        (adds ? decideAddReaction : decideRemoveReaction)(state, to, by, reaction),
      )
    },
  ),
  command(
    'follow or no longer',
    record({ repoId, by, kind: oneOf(['starred', 'watched']) }),
    (world, { repoId, by, kind }) => {
      if (world.repositories.now(repoId).status !== 'active') return
      const of = { repoId, userId: by.id }
      const ends = world.follows.now(of)[kind]
      world.follows.change(of, by, (state) =>
        ends
          ? decideUnfollow(state, kind, { repoId, user: by })
          : decideFollow(state, kind, { repoId, user: by }, 0),
      )
    },
  ),
]
