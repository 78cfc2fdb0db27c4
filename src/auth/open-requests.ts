/**
 * Open requests by their sign-in. When a token, password or account ends, its open answers (live histories, JSON lines,
 * clones, downloads) end too.
 */
import type { AnyCollection, Touched } from '../projections/store/read-store.ts'
import type { Services } from '../services/services.ts'
import { currentAccount } from './current-account.ts'
import { hasSecret } from './secrets.ts'
import { hasSession } from './sessions/session-store.ts'
import { type Identity, isSignInValid } from './sign-in.ts'

type SignInServices = Parameters<typeof currentAccount>[0] & Pick<Services, 'secrets'>

type SignIn = Pick<Identity, 'account' | 'tokenId' | 'session'>

interface OpenRequest {
  signIn: SignIn
  end: () => void
}

export interface OpenRequests {
  /** Grows with every change that may end a sign-in. */
  readonly changes: number
  /**
   * Calls `end` once when the sign-in becomes invalid. `since` is `changes` before the credentials were looked up.
   * Returns a function that ends the watch.
   */
  watch(signIn: SignIn, since: number, end: () => void): () => void
  /** Called by the projector after the views with the documents that it wrote. */
  applied(touched: readonly Touched[]): void
  /** Called when any document of a collection may have changed. */
  exchanged(collection: string): void
}

export function createOpenRequests(services: SignInServices): OpenRequests {
  const { accounts, tokens } = services.views
  /** By account id. */
  const open = new Map<string, Set<OpenRequest>>()
  let changes = 0

  async function check(request: OpenRequest): Promise<void> {
    const { account, tokenId, session } = request.signIn
    try {
      const [now, token, isSecret, isOpen] = await Promise.all([
        accounts.get(`${account.id}`),
        tokenId === null ? undefined : tokens.get(`${tokenId}`),
        // The secret is deleted at once, even when the read model of tokens has stopped.
        tokenId === null ? false : hasSecret(services.secrets, tokenId),
        session === undefined || hasSession(services.secrets, session),
      ])
      const newest = now && (await currentAccount(services, now))
      if (isOpen && isSignInValid(request.signIn, newest, token !== undefined && isSecret)) return
    } catch {
      // The store cannot tell whether it is valid. The client can sign in again.
    }
    request.end()
  }

  services.accountChanges.listen((id) => {
    changes += 1
    for (const request of open.get(`${id}`) ?? []) void check(request)
  })

  const isOf = ({ name }: Pick<AnyCollection, 'name'>) => name === 'accounts' || name === 'tokens'

  return {
    get changes() {
      return changes
    },
    watch(signIn, since, end) {
      const request = { signIn, end }
      const key = `${signIn.account.id}`
      const ofAccount = open.get(key) ?? new Set()
      open.set(key, ofAccount.add(request))
      if (since !== changes) void check(request)
      return () => {
        ofAccount.delete(request)
        if (ofAccount.size === 0 && open.get(key) === ofAccount) open.delete(key)
      }
    },
    exchanged(name) {
      if (!isOf({ name })) return
      changes += 1
      for (const requests of open.values()) for (const request of requests) void check(request)
    },
    applied(touched) {
      const own = touched.filter(({ collection }) => isOf(collection))
      if (own.length === 0) return
      changes += 1
      const ended = own.flatMap(({ collection, id }): OpenRequest[] => {
        if (collection.name === 'accounts') return [...(open.get(id) ?? [])]
        return [...open.values()].flatMap((requests) =>
          [...requests].filter(({ signIn }) => `${signIn.tokenId}` === id),
        )
      })
      for (const request of ended) void check(request)
    },
  }
}
