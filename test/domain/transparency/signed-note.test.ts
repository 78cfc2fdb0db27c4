import { createPrivateKey, createPublicKey, generateKeyPairSync } from 'node:crypto'
import t from 'tap'
import { checkpointText, parseCheckpoint } from '../../../src/domain/transparency/checkpoint.ts'
import {
  formatVerifierKey,
  isKeyName,
  parseNote,
  parseVerifierKey,
  signatureProblem,
  signNote,
  verifierKeyOf,
} from '../../../src/domain/transparency/signed-note.ts'

/** The vectors of golang.org/x/mod/sumdb/note. */
const KEY = 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW'
const SEED = Buffer.from('AYEKFALVFGyNhPJEMzD1QIDr+Y7hfZx09iUvxdXHKDFz', 'base64').subarray(1)
const TEXT =
  'If you think cryptography is the answer to your problem,\n' + "then you don't know what your problem is.\n"
const SIGNATURE =
  '— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n'
const NOTE = `${TEXT}\n${SIGNATURE}`

/** The prefix of an Ed25519 key in PKCS #8. */
const PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex')
const privateKey = createPrivateKey({ key: Buffer.concat([PKCS8, SEED]), format: 'der', type: 'pkcs8' })

function problemOf(note: string, key: string): string | undefined {
  const [parsed, verifier] = [parseNote(note), parseVerifierKey(key)]
  if (parsed === undefined || verifier === undefined) return 'malformed'
  return signatureProblem(parsed, verifier)
}

t.test('signed note: keys and signatures are those of the vectors of sumdb/note', async (t) => {
  const key = verifierKeyOf('PeterNeumann', createPublicKey(privateKey))
  t.equal(formatVerifierKey(key), KEY)
  t.equal(signNote(TEXT, 'PeterNeumann', privateKey), NOTE)
  t.equal(problemOf(NOTE, KEY), undefined)
  t.equal(parseNote(NOTE)?.text, TEXT)
})

t.test('signed note: the example of C2SP is verified', async (t) => {
  const note =
    'This is an example message.\n\n— example.com/foo Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n'
  t.equal(problemOf(note, 'example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k'), undefined)
})

t.test('signed note: another key, a changed text and a changed signature are found', async (t) => {
  const { publicKey } = generateKeyPairSync('ed25519')
  const other = formatVerifierKey(verifierKeyOf('PeterNeumann', publicKey))
  t.match(problemOf(NOTE, other), /^it is not signed by PeterNeumann\+.{8}, but by PeterNeumann\+c74f20a3$/)
  t.equal(
    problemOf(NOTE.replace('answer', 'question'), KEY),
    'the signature of PeterNeumann+c74f20a3 does not match its text',
  )
  t.match(problemOf(NOTE.replace('ZJku', 'ZJkv'), KEY), /does not match its text/)
  const twice = `${NOTE}${signNote(TEXT, 'witness.example', generateKeyPairSync('ed25519').privateKey).slice(TEXT.length + 1)}`
  t.equal(problemOf(twice, KEY), undefined, 'signatures of unknown keys are ignored')
})

t.test('signed note: malformed keys and notes are refused', async (t) => {
  for (let i = 0; i < KEY.length; i++) {
    t.equal(parseVerifierKey(KEY.slice(0, i)), undefined)
    t.equal(
      parseVerifierKey(KEY.slice(0, i) + String.fromCharCode(KEY.charCodeAt(i) + 1) + KEY.slice(i + 1)),
      undefined,
    )
  }
  t.equal(
    parseVerifierKey('PeterNeumann+cc469956+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TWBADKEY=='),
    undefined,
  )
  t.equal(parseVerifierKey('PeterNeumann+173116ae+ZRpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW'), undefined)
  for (const note of [
    '',
    TEXT,
    `${TEXT}\n`,
    NOTE.slice(0, -1),
    NOTE.replace('—', '-'),
    NOTE.replace('JnAM=', 'JnAM'),
    NOTE.replace('PeterNeumann', 'Peter Neumann'),
    NOTE.replace('PeterNeumann', 'Peter+Neumann'),
    NOTE.replace('answer', 'ans\twer'),
    NOTE.replace('answer', '\ud800'),
    `${TEXT}\n— PeterNeumann AAAA\n`,
    `${NOTE}more\n`,
  ]) {
    t.equal(parseNote(note), undefined, JSON.stringify(note.slice(0, 200)))
  }
  t.notOk(isKeyName(''))
  t.notOk(isKeyName('a b'))
  t.notOk(isKeyName('a+b'))
  t.ok(isKeyName('git.example.org/mergelog'))
})

t.test('checkpoint: the example of C2SP is read and written', async (t) => {
  const text = 'example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n'
  const checkpoint = parseCheckpoint(text)
  t.match(checkpoint, { origin: 'example.com/behind-the-sofa', size: 20852163 })
  t.equal(checkpoint && checkpointText(checkpoint), text)
  t.match(parseCheckpoint(`${text}extension\n`), { size: 20852163 })
  for (const other of [
    text.slice(0, -1),
    `${text}\n`,
    text.replace('2085', '02085'),
    text.replace('20852163', '-1'),
    text.replace('20852163', '99999999999999999999'),
    text.replace('q2I=', 'q2I'),
    text.replace('CsUY', ''),
    text.replace('example.com/behind-the-sofa', ''),
  ]) {
    t.equal(parseCheckpoint(other), undefined, JSON.stringify(other))
  }
})
