/** Histories: random commands to every decider, and the resulting worlds. */
import fc from 'fast-check'
import { decideAddAttachment } from '../../src/commands/comments/comment.decider.ts'
import { decideCreateMilestone } from '../../src/commands/milestones/milestone.decider.ts'
import { accountCommands, chainCommands, createOrganization, createUser } from './account-commands.ts'
import { commentRefs, discussionCommands, type Opening, open } from './discussion-commands.ts'
import { lockCommand } from './lock-commands.ts'
import { pullCommands } from './pull-commands.ts'
import { releaseCommands } from './release-commands.ts'
import {
  createRepository,
  deleteRepository,
  labelCommand,
  milestoneCommand,
  repositoryCommands,
} from './repository-commands.ts'
import { reviewCommands } from './review-commands.ts'
import { socialCommands } from './social-commands.ts'
import { ANN, BOB, type Command, EVE, INDEXES, mostly, REPOSITORIES, record } from './values.ts'
import { webhookCommand } from './webhook-commands.ts'
import { emptyWorld, type World } from './world.ts'

/** A world in which commands have something to change. */
function settledWorld(): World {
  const world = emptyWorld()
  for (const who of [ANN, BOB, EVE]) createUser(world, who)
  createOrganization(world, ANN, 'public')
  for (const id of REPOSITORIES) createRepository(world, id, false, 'public')
  world.milestones.change(1, BOB, (state) =>
    decideCreateMilestone(state, 1, 1, { title: 'v1', description: '', state: 'open', dueOn: null }),
  )
  const given: Opening = { title: 'fix', body: '', labels: [], assignees: [], deadline: null, milestone: 1 }
  for (const repoId of REPOSITORIES) {
    for (const index of INDEXES) open(world, { repoId, index }, BOB, given)
  }
  for (const of of commentRefs) {
    world.comments.change(of, BOB, (state) =>
      state.status === 'none' ? [{ type: 'CommentAdded', data: { ...of, author: BOB, body: '' } }] : [],
    )
    const file = { id: of.commentId, uuid: `uuid-${of.commentId}`, name: 'a.txt', size: 1, uploader: BOB }
    world.comments.change(of, BOB, (state) => decideAddAttachment(state, file))
  }
  return world
}

/** Commands, and whether they begin in a settled world or in an empty one. */
export interface History {
  settled: boolean
  commands: readonly Command[]
}

const historyOf = (commands: fc.Arbitrary<Command>): fc.Arbitrary<History> =>
  record({ settled: mostly, commands: fc.array(commands, { maxLength: 200, size: 'max' }) })

/** Histories of everything. */
export const histories = historyOf(
  fc.oneof(
    { weight: 40, arbitrary: fc.oneof(...pullCommands) },
    { weight: 60, arbitrary: fc.oneof(...discussionCommands) },
    { weight: 10, arbitrary: fc.oneof(...reviewCommands) },
    { weight: 40, arbitrary: fc.oneof(...repositoryCommands) },
    { weight: 40, arbitrary: fc.oneof(...accountCommands) },
    { weight: 20, arbitrary: labelCommand },
    { weight: 40, arbitrary: fc.oneof(...releaseCommands) },
    { weight: 30, arbitrary: milestoneCommand },
    { weight: 20, arbitrary: webhookCommand },
    { weight: 30, arbitrary: fc.oneof(...chainCommands) },
    { weight: 20, arbitrary: lockCommand },
    { weight: 60, arbitrary: fc.oneof(...socialCommands) },
    { weight: 1, arbitrary: deleteRepository },
  ),
)

/** Histories of a few pull requests and issues. */
export const pullHistories = historyOf(
  fc.oneof(
    { weight: 3, arbitrary: fc.oneof(...pullCommands) },
    { weight: 1, arbitrary: fc.oneof(...discussionCommands) },
    { weight: 1, arbitrary: fc.oneof(...reviewCommands) },
  ),
)

/** The world after these commands. */
export function played({ settled, commands }: History): World {
  const world = settled ? settledWorld() : emptyWorld()
  for (const { act } of commands) act(world)
  return world
}
