/** What the data of each event about releases looks like. */
import { account } from './ref-shapes.ts'
import type { ReleaseAsset, ReleaseEvent, ReleaseSettings } from './release-events.ts'
import { type Checks, flag, object, optional, partial, text, whole } from './shapes.ts'

type DataOf<T extends ReleaseEvent['type']> = Extract<ReleaseEvent, { type: T }>['data']

const settings: Checks<ReleaseSettings> = {
  tag: text,
  target: text,
  name: text,
  body: text,
  draft: flag,
  prerelease: flag,
}
const ofRelease = { releaseId: whole, repoId: whole, draft: flag }
const asset = object<ReleaseAsset>({ id: whole, uuid: text, name: text, size: whole, uploader: account })

export const releaseShapes: { readonly [T in ReleaseEvent['type']]: Checks<DataOf<T>> } = {
  ReleaseCreated: { ...ofRelease, ...settings, author: account, createdAt: text },
  ReleaseEdited: {
    ...ofRelease,
    changes: partial<ReleaseSettings>(settings),
    createdAt: optional(text),
  },
  ReleaseDeleted: { ...ofRelease, tag: text },
  ReleaseAssetAdded: { ...ofRelease, asset },
  ReleaseAssetRenamed: { ...ofRelease, assetId: whole, name: text },
  ReleaseAssetDeleted: { ...ofRelease, assetId: whole, uuid: text },
}
