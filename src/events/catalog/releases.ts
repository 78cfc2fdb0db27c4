/** `release-<id>` */
import { type Static, Type } from 'typebox'
import { Attachment } from './attachments.ts'
import { AccountRef, Changes, type EventsOf, Flag, Text, Whole } from './parts.ts'

/** The fields of a release that can be edited. */
const ReleaseSettings = Type.Object({
  /** The name of the tag, without `refs/tags/`. */
  tag: Text,
  /** Target of a missing tag: a branch, a tag or a commit. */
  target: Text,
  name: Text,
  body: Text,
  /** Only writers see a draft. Its tag is created when it is published. */
  draft: Flag,
  prerelease: Flag,
})
export type ReleaseSettings = Static<typeof ReleaseSettings>

/** A file of a release. */
export type ReleaseAsset = Attachment

/** Fields of all events of a release. `draft`: after the event. Only admins of the repository see events of a draft. */
const ofRelease = { releaseId: Whole, repoId: Whole, draft: Flag }

export const releaseEvents = {
  ReleaseCreated: Type.Object({
    ...ofRelease,
    ...ReleaseSettings.properties,
    author: AccountRef,
    /** ISO 8601, for sorting: the commit time of an existing tag, else the time of the request. */
    createdAt: Text,
  }),
  ReleaseEdited: Type.Object({
    ...ofRelease,
    changes: Changes(ReleaseSettings.properties),
    /** Present when the edit has published it and created its tag. */
    createdAt: Type.Optional(Text),
  }),
  /** The tag stays. */
  ReleaseDeleted: Type.Object({ ...ofRelease, tag: Text }),
  ReleaseAssetAdded: Type.Object({ ...ofRelease, asset: Attachment }),
  ReleaseAssetRenamed: Type.Object({ ...ofRelease, assetId: Whole, name: Text }),
  ReleaseAssetDeleted: Type.Object({ ...ofRelease, assetId: Whole, uuid: Text }),
}
export type ReleaseEvent = EventsOf<typeof releaseEvents>
