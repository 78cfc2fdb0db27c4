/** Reads and checks the certificate and the key of the gRPC server. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { ServerCredentials } from '@grpc/grpc-js'
import { ConfigError, type SettingName } from '../config.ts'

/** Paths of PEM files: a certificate, optionally with its chain, and its private key without a passphrase. */
export interface TlsFiles {
  cert: string
  key: string
}

/** Runs `work`, which uses the value of a setting. @throws ConfigError with the message of any error */
async function using<T>(setting: SettingName, problem: string, work: () => T): Promise<Awaited<T>> {
  try {
    return await work()
  } catch (error) {
    throw new ConfigError(setting, `${problem}: ${error instanceof Error ? error.message : error}`)
  }
}

/** Checks the files now, so that the start fails, not the first client. @throws ConfigError with the setting's name */
export async function tlsCredentials(files: TlsFiles): Promise<ServerCredentials> {
  const cert = await using('GRPC_TLS_CERT', 'cannot be read', () => readFile(files.cert))
  const key = await using('GRPC_TLS_KEY', 'cannot be read', () => readFile(files.key))
  const certificate = await using('GRPC_TLS_CERT', 'is not a certificate', () => new X509Certificate(cert))
  const privateKey = await using('GRPC_TLS_KEY', 'is not a private key without a passphrase', () =>
    createPrivateKey(key),
  )
  if (!certificate.checkPrivateKey(privateKey)) {
    throw new ConfigError('GRPC_TLS_KEY', 'is not the key of the certificate in GRPC_TLS_CERT')
  }
  await using('GRPC_TLS_CERT', 'cannot be used', () => createSecureContext({ cert, key }))
  return ServerCredentials.createSsl(null, [{ cert_chain: cert, private_key: key }])
}
