/** The events about releases, in the stream `release-<id>`. */
import type { AccountRef } from './refs.ts'

/** The fields of a release that can be edited. */
export interface ReleaseSettings {
  /** The name of the tag, without `refs/tags/`. */
  tag: string
  /** What the tag is made of when it is missing: a branch, a tag or a commit. */
  target: string
  name: string
  body: string
  /** Only writers see a draft. Its tag is made when it is published. */
  draft: boolean
  prerelease: boolean
}

/** A file of a release. It has the fields of a comment's file. */
export interface ReleaseAsset {
  /** Unique on the server, also among the files of comments. */
  id: number
  /** The name under which the file is stored and downloaded. */
  uuid: string
  name: string
  /** In bytes. */
  size: number
  uploader: AccountRef
}

/** What all events of a release have. */
interface OfRelease {
  releaseId: number
  repoId: number
  /** Whether it is a draft after the event: only admins of the repository see such events. */
  draft: boolean
}

/** `release-<id>` */
export type ReleaseEvent =
  | {
      type: 'ReleaseCreated'
      data: OfRelease &
        ReleaseSettings & {
          author: AccountRef
          /** ISO 8601: when the commit of a tag that was there was made, else the time of the request. Lists sort by it. */
          createdAt: string
        }
    }
  | {
      type: 'ReleaseEdited'
      data: OfRelease & {
        changes: Partial<ReleaseSettings>
        /** Present when the edit has published it and made its tag. */
        createdAt?: string
      }
    }
  /** Its tag stays. */
  | { type: 'ReleaseDeleted'; data: OfRelease & { tag: string } }
  | { type: 'ReleaseAssetAdded'; data: OfRelease & { asset: ReleaseAsset } }
  | { type: 'ReleaseAssetRenamed'; data: OfRelease & { assetId: number; name: string } }
  | { type: 'ReleaseAssetDeleted'; data: OfRelease & { assetId: number; uuid: string } }
