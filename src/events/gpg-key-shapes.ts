/** What the data of the events in `gpg-key-events.ts` looks like. */
import type { GpgKeyEvent, GpgPartData } from './gpg-key-events.ts'
import { account } from './ref-shapes.ts'
import { type Checks, flag, list, object, orNull, text, whole } from './shapes.ts'

type DataOf<T extends GpgKeyEvent['type']> = Extract<GpgKeyEvent, { type: T }>['data']

const of: Checks<DataOf<'GpgKeyVerified'>> = {
  keyId: whole,
  user: account,
}
const part = object<GpgPartData>({
  longId: text,
  publicKey: text,
  madeAt: text,
  canSign: flag,
  canEncrypt: flag,
})

export const gpgKeyFields: { readonly [T in GpgKeyEvent['type']]: Checks<DataOf<T>> } = {
  GpgKeyAdded: {
    ...of,
    primary: part,
    subkeys: list(part),
    emails: list(text),
    expiresAt: orNull(text),
    armored: text,
    verified: flag,
  },
  GpgKeyVerified: of,
  GpgKeyRemoved: { ...of, longId: text },
}
