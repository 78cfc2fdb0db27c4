/** What the data of the events about owners and names of repositories looks like. */
import { account } from './ref-shapes.ts'
import { type Checks, list, object, text, whole, word } from './shapes.ts'
import type { Owner, TransferEvent } from './transfer-events.ts'

type DataOf<T extends TransferEvent['type']> = Extract<TransferEvent, { type: T }>['data']

const owner = object<Owner>({ id: whole, login: text, kind: word('user', 'organization') })

export const transferShapes: { readonly [T in TransferEvent['type']]: Checks<DataOf<T>> } = {
  TransferStarted: { repoId: whole, sender: account, recipient: owner, teamIds: list(whole) },
  TransferCanceled: { repoId: whole, recipient: owner },
  RepositoryTransferred: {
    repoId: whole,
    name: text,
    from: owner,
    owner,
    ownerVisibility: word('public', 'limited', 'private'),
    teamIds: list(whole),
  },
  RepositoryRenamed: { repoId: whole, owner: account, from: text, name: text },
}
