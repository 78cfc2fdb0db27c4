/** The certificate and key of the gRPC server. */
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { createSecureContext } from 'node:tls'
import { ServerCredentials } from '@grpc/grpc-js'
import { ConfigError, type SettingName } from '../config.ts'

/** Paths of PEM files: a certificate (its chain may follow it) and its private key, without a passphrase. */
export interface TlsFiles {
  cert: string
  key: string
}

/** Does `work` with the value of a setting. @throws ConfigError with what it threw */
function using<T>(setting: SettingName, problem: string, work: () => T): T {
  try {
    return work()
  } catch (error) {
    throw new ConfigError(setting, `${problem}: ${error instanceof Error ? error.message : error}`)
  }
}

async function contents(setting: SettingName, path: string): Promise<Buffer> {
  try {
    return await readFile(path)
  } catch (error) {
    throw new ConfigError(setting, `can not be read: ${error instanceof Error ? error.message : error}`)
  }
}

/** What can not be used is found out now, not by the first client. @throws ConfigError naming the setting */
export async function tlsCredentials(files: TlsFiles): Promise<ServerCredentials> {
  const cert = await contents('GRPC_TLS_CERT', files.cert)
  const key = await contents('GRPC_TLS_KEY', files.key)
  const certificate = using('GRPC_TLS_CERT', 'is no certificate', () => new X509Certificate(cert))
  const privateKey = using('GRPC_TLS_KEY', 'is no private key without a passphrase', () =>
    createPrivateKey(key),
  )
  if (!certificate.checkPrivateKey(privateKey)) {
    throw new ConfigError('GRPC_TLS_KEY', 'is not the key of the certificate in GRPC_TLS_CERT')
  }
  using('GRPC_TLS_CERT', 'can not be used', () => createSecureContext({ cert, key }))
  return ServerCredentials.createSsl(null, [{ cert_chain: cert, private_key: key }])
}
