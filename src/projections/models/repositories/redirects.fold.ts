/** Redirects from earlier names and owners of repositories, until the name is taken again. */
import { type Fold, foldOf } from '../../projector/read-model.ts'
import { repositoryKey } from './repositories.fold.ts'

export interface RedirectDocument {
  /** The old `owner/name` in lower case. */
  key: string
  repoId: number
}

/** The old name leads to the repository. The new one is in use, so it redirects nowhere. */
const moved = (id: string, taken: string, repoId: number) => (id === taken ? undefined : { key: id, repoId })

export const redirectFold: Fold<RedirectDocument> = foldOf({
  name: 'redirects',
  indexes: [{ repoId: 1 }],
  version: 1,
  staysUntilRemoved: true,
  ids({ type, data }) {
    switch (type) {
      case 'RepositoryCreated':
        return [repositoryKey(data.owner.login, data.name)]
      case 'RepositoryRenamed':
        return [repositoryKey(data.owner.login, data.from), repositoryKey(data.owner.login, data.name)]
      case 'RepositoryTransferred':
        return [repositoryKey(data.from.login, data.name), repositoryKey(data.owner.login, data.name)]
    }
  },
  becomes: {
    RepositoryCreated: () => undefined,
    RepositoryRenamed: (_, { data }, id) =>
      moved(id, repositoryKey(data.owner.login, data.name), data.repoId),
    RepositoryTransferred: (_, { data }, id) =>
      moved(id, repositoryKey(data.owner.login, data.name), data.repoId),
  },
})
