/** Random commands to what people do with what others have made. */
import fc from 'fast-check'
import { decideFollow, decideUnfollow } from '../../src/commands/follows/follow.ts'
import { decideAddReaction, decideRemoveReaction } from '../../src/commands/reactions/reactions.ts'
import { commentRefs, discussionOf } from './discussion-commands.ts'
import { by, command, INDEXES, oneOf, REPOSITORIES, record, repoId } from './values.ts'

const texts = [
  ...REPOSITORIES.flatMap((repoId) => INDEXES.map((index) => ({ repoId, index, commentId: null }))),
  ...commentRefs,
]

export const socialCommands = [
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
    'follow',
    record({ repoId, by, kind: oneOf(['starred', 'watched']), begins: fc.boolean() }),
    (world, { repoId, by, kind, begins }) => {
      if (world.repositories.now(repoId).status !== 'active') return
      world.follows.change({ repoId, userId: by.id }, by, (state) =>
        begins
          ? decideFollow(state, kind, { repoId, user: by }, 0)
          : decideUnfollow(state, kind, { repoId, user: by }),
      )
    },
  ),
]
