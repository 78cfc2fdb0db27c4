/** Random commands to releases and their files. */
import {
  decideAddAsset,
  decideCreateRelease,
  decideDeleteAsset,
  decideDeleteRelease,
  decideEditRelease,
  decideRenameAsset,
} from '../../src/commands/releases/release.decider.ts'
import { by, command, mostly, nextId, oneOf, partial, record, text } from './values.ts'

const id = oneOf([1, 2, 3])
const settings = {
  tag: oneOf(['v1', 'v2']),
  target: oneOf(['main']),
  name: text,
  body: text,
  draft: mostly,
  prerelease: mostly,
}

export const releaseCommands = [
  command('create release', record({ id, by, given: record(settings) }), (world, { id, by, given }) => {
    if (world.repositories.now(1).status !== 'active') return
    const created = { ...given, releaseId: id, repoId: 1, author: by }
    world.releases.change(id, by, (state) =>
      decideCreateRelease(state, { ...created, createdAt: '2026-01-01T00:00:00.000Z' }),
    )
  }),
  command('edit release', record({ id, by, given: partial(settings) }), (world, { id, by, given }) =>
    world.releases.change(id, by, (state) =>
      decideEditRelease(state, given, given.draft === false ? '2026-01-02T00:00:00.000Z' : undefined),
    ),
  ),
  command('delete release', record({ id, by, really: mostly }), (world, { id, by, really }) => {
    if (!really) world.releases.change(id, by, decideDeleteRelease)
  }),
  command(
    'asset',
    record({
      id,
      by,
      name: oneOf(['', 'a.txt', 'b.txt']),
      what: oneOf(['add', 'add', 'rename', 'delete', 'delete']),
    }),
    (world, { id, by, name, what }) => {
      const before = world.releases.now(id)
      const assetId = (before.status === 'there' && before.assets[0]?.id) || 0
      world.releases.change(id, by, (state) => {
        if (what === 'rename') return decideRenameAsset(state, assetId, name)
        if (what === 'delete') return decideDeleteAsset(state, assetId)
        const file = { id: nextId(world), uuid: `uuid-${nextId(world)}`, name, size: 1, uploader: by }
        return decideAddAsset(state, file)
      })
    },
  ),
]
