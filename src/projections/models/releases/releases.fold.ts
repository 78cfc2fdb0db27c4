/** Releases, with their files. */
import type { ReleaseAsset, ReleaseSettings } from '../../../events/catalog/releases.ts'
import { type Fold, foldOf } from '../../projector/read-model.ts'
import { wordsOf } from '../issues/words.ts'

/** A file of a release. */
interface ReleaseFile extends ReleaseAsset {
  createdAt: string
}

export interface ReleaseDocument extends ReleaseSettings {
  id: number
  repoId: number
  author: { id: number; login: string }
  assets: ReleaseFile[]
  /** The uuids of the files, by which downloads find the release. */
  assetUuids: string[]
  /** The words of the name and the tag, for filters. */
  words: string[]
  /** ISO 8601, for sorting. */
  createdAt: string
  /** Null for a draft. */
  publishedAt: string | null
}

export const releaseFold: Fold<ReleaseDocument> = foldOf({
  name: 'releases',
  indexes: [
    { repoId: 1, createdAt: -1, id: -1 },
    { repoId: 1, draft: 1, createdAt: -1, id: -1 },
    { repoId: 1, draft: 1, prerelease: 1, createdAt: -1, id: -1 },
    { repoId: 1, tag: 1 },
    { repoId: 1, id: 1 },
  ],
  arrays: ['assetUuids', 'words'],
  version: 2,
  staysUntilRemoved: true,
  ids: ({ data }) => [`${data.releaseId}`],
  becomes: {
    ReleaseCreated(_, { data, metadata: { at } }) {
      const { releaseId: id, repoId, author, tag, target, name, body, draft, prerelease, createdAt } = data
      const settings = { tag, target, name, body, draft, prerelease }
      const files = { assets: [], assetUuids: [] }
      const times = { createdAt, publishedAt: draft ? null : at }
      return { id, repoId, author, ...settings, ...files, words: wordsIn(settings), ...times }
    },
    ReleaseDeleted: () => undefined,
  },
  begins: ['ReleaseCreated'],
  changes: {
    ReleaseEdited(release, { data: { changes, createdAt = release.createdAt, draft }, metadata: { at } }) {
      const publishedAt = draft ? null : (release.publishedAt ?? at)
      return { ...changes, createdAt, publishedAt }
    },
    ReleaseAssetAdded: ({ assets }, { data, metadata }) => ({
      assets: [...assets, { ...data.asset, createdAt: metadata.at }],
    }),
    ReleaseAssetRenamed: ({ assets }, { data: { assetId, name } }) => ({
      assets: assets.map((file) => (file.id === assetId ? { ...file, name } : file)),
    }),
    ReleaseAssetDeleted: ({ assets }, { data }) => ({
      assets: assets.filter(({ id }) => id !== data.assetId),
    }),
  },
  derived: (release) => ({
    assetUuids: release.assets.map(({ uuid }) => uuid),
    words: wordsIn(release),
  }),
})

const wordsIn = ({ tag, name }: Pick<ReleaseSettings, 'tag' | 'name'>) => wordsOf(`${tag} ${name}`)
