/** The topics of public repositories, with the number of these repositories. */
import { createHash } from 'node:crypto'
import { type Fold, foldOf } from '../../projector/read-model.ts'
import { partsOf } from './name-parts.ts'

export interface TopicDocument {
  /** Derived from the name: a topic that returns keeps its id. */
  id: number
  name: string
  parts: string[]
  repositories: number
  createdAt: string
  updatedAt: string
}

export const topicFold: Fold<TopicDocument> = foldOf({
  name: 'topics',
  indexes: [{ repositories: -1, name: 1 }],
  arrays: ['parts'],
  version: 2,
  ids: ({ data }) => [...data.listed.added, ...data.listed.removed],
  becomes: {
    TopicsChanged(before, { data, metadata }, name) {
      const more = data.listed.added.includes(name) ? 1 : -1
      const repositories = (before?.repositories ?? 0) + more
      if (repositories <= 0) return undefined
      const created = { id: idOf(name), name, parts: partsOf(name), createdAt: metadata.at }
      return { ...(before ?? created), repositories, updatedAt: metadata.at }
    },
  },
})

/** 48 bits of the name's digest. */
const idOf = (name: string) => createHash('sha256').update(name).digest().readUIntBE(0, 6)
