/** Reads and checks a certificate and its key, for HTTP and for gRPC. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { ConfigError } from '../../config/config.ts'
import type { SettingName } from '../../config/setting-table.ts'

/** Paths of PEM files: a certificate, optionally with its chain, and its private key without a passphrase. */
export interface TlsFiles {
  cert: string
  key: string
}

/** Contents of the files. */
export interface TlsPair {
  cert: Buffer
  key: Buffer
}

/** A certificate in use, and its source. */
export interface Certificate {
  files: TlsFiles
  /** The settings with the paths. */
  names: { cert: SettingName; key: SettingName }
  pair: TlsPair
}

/** Runs `work`, which uses the value of a setting. @throws ConfigError with the message of any error */
async function using<T>(setting: SettingName, problem: string, work: () => T): Promise<Awaited<T>> {
  try {
    return await work()
  } catch (error) {
    throw new ConfigError(setting, `${problem}: ${error instanceof Error ? error.message : error}`)
  }
}

/**
 * Reads and checks the files, so that startup fails instead of the first client.
 * @throws ConfigError with the setting's name
 */
export async function readCertificate(files: TlsFiles, names: Certificate['names']): Promise<Certificate> {
  const cert = await using(names.cert, 'cannot be read', () => readFile(files.cert))
  const key = await using(names.key, 'cannot be read', () => readFile(files.key))
  const certificate = await using(names.cert, 'is not a certificate', () => new X509Certificate(cert))
  const privateKey = await using(names.key, 'is not a private key without a passphrase', () =>
    createPrivateKey(key),
  )
  if (!certificate.checkPrivateKey(privateKey)) {
    throw new ConfigError(names.key, `is not the key of the certificate in ${names.cert}`)
  }
  await using(names.cert, 'cannot be used', () => createSecureContext({ cert, key }))
  return { files, names, pair: { cert, key } }
}
