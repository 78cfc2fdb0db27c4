/** The release aggregate, with its files. Pure. */

import { refuse } from '../../errors/refusal.ts'
import type { ReleaseAsset, ReleaseEvent, ReleaseSettings } from '../../events/catalog/releases.ts'
import { changedFields } from '../execution/changed-fields.ts'
import { type Decider, type Decision, deciderOf } from '../execution/decider.ts'
import { snapshots } from '../execution/snapshots.ts'

interface Release extends ReleaseSettings {
  releaseId: number
  repoId: number
  assets: readonly ReleaseAsset[]
}

export type ReleaseState = { status: 'missing' } | { status: 'deleted' } | ({ status: 'there' } & Release)

/** Maximum number of files in a release. */
const MAX_ASSETS = 500

export const releaseDecider: Decider<ReleaseState, ReleaseEvent> = deciderOf({
  initialState: { status: 'missing' },
  snapshots: snapshots(),
  becomes: {
    ReleaseCreated(_, { data: { releaseId, repoId, tag, target, name, body, draft, prerelease } }) {
      const settings = { tag, target, name, body, draft, prerelease }
      return { status: 'there', releaseId, repoId, ...settings, assets: [] }
    },
    ReleaseDeleted: () => ({ status: 'deleted' }),
  },
  exists: (state: ReleaseState) => state.status === 'there',
  changes: {
    ReleaseEdited: (_, { data }) => data.changes,
    ReleaseAssetAdded: ({ assets }, { data }) => ({ assets: [...assets, data.asset] }),
    ReleaseAssetRenamed: ({ assets }, { data: { assetId, name } }) => ({
      assets: assets.map((file) => (file.id === assetId ? { ...file, name } : file)),
    }),
    ReleaseAssetDeleted: ({ assets }, { data }) => ({
      assets: assets.filter(({ id }) => id !== data.assetId),
    }),
  },
})

const gone = refuse.notFound('release not found')
const noSuchFile = refuse.notFound('attachment not found')

const ofRelease = ({ releaseId, repoId, draft }: Release) => ({ releaseId, repoId, draft })

export function decideCreateRelease(
  state: ReleaseState,
  wanted: Extract<ReleaseEvent, { type: 'ReleaseCreated' }>['data'],
): Decision<ReleaseEvent> {
  if (state.status !== 'missing') return refuse.conflict(`release ${wanted.releaseId} exists already`)
  return [{ type: 'ReleaseCreated', data: wanted }]
}

/** Records only changed fields. `createdAt`: the time of the tag, if this edit has created it. */
export function decideEditRelease(
  state: ReleaseState,
  wanted: Partial<ReleaseSettings>,
  createdAt?: string,
): Decision<ReleaseEvent> {
  if (state.status !== 'there') return gone
  const changes = changedFields<ReleaseSettings>(state, wanted)
  if (Object.keys(changes).length === 0) return []
  const draft = changes.draft ?? state.draft
  const data = { ...ofRelease(state), draft, changes }
  return [{ type: 'ReleaseEdited', data: createdAt === undefined ? data : { ...data, createdAt } }]
}

/** Deletes the release and its files. The tag stays, as in Gitea. */
export function decideDeleteRelease(state: ReleaseState): Decision<ReleaseEvent> {
  if (state.status !== 'there') return gone
  return [
    ...state.assets.map(
      ({ id: assetId, uuid }): ReleaseEvent => ({
        type: 'ReleaseAssetDeleted',
        data: { ...ofRelease(state), assetId, uuid },
      }),
    ),
    { type: 'ReleaseDeleted', data: { ...ofRelease(state), tag: state.tag } },
  ]
}

export function decideAddAsset(state: ReleaseState, asset: ReleaseAsset): Decision<ReleaseEvent> {
  if (state.status !== 'there') return gone
  if (state.assets.length >= MAX_ASSETS) {
    return refuse.unprocessable(`a release can have at most ${MAX_ASSETS} files`)
  }
  return [{ type: 'ReleaseAssetAdded', data: { ...ofRelease(state), asset } }]
}

export function decideRenameAsset(
  state: ReleaseState,
  assetId: number,
  name: string,
): Decision<ReleaseEvent> {
  if (state.status !== 'there') return gone
  const file = state.assets.find(({ id }) => id === assetId)
  if (file === undefined) return noSuchFile
  if (name === '' || name === file.name) return []
  return [{ type: 'ReleaseAssetRenamed', data: { ...ofRelease(state), assetId, name } }]
}

export function decideDeleteAsset(state: ReleaseState, assetId: number): Decision<ReleaseEvent> {
  if (state.status !== 'there') return gone
  const file = state.assets.find(({ id }) => id === assetId)
  if (file === undefined) return noSuchFile
  return [{ type: 'ReleaseAssetDeleted', data: { ...ofRelease(state), assetId, uuid: file.uuid } }]
}
