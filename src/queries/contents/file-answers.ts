/** Common parts of answers with a repository's file. */
import { Type } from 'typebox'
import { errorAnswer } from '../../http/answers/error-answers.ts'

/** Headers that prevent users' files from running as pages of this server. */
export const FILE_HEADERS = {
  'Content-Security-Policy': "default-src 'none'; sandbox",
  'Cache-Control': 'private, no-cache',
}

/** The media type is that of the file. */
const FILE = { '*/*': { schema: Type.String({ format: 'binary' }) } }

export const FILE_ANSWER = {
  200: { description: 'The file', content: FILE },
  304: Type.Null({ description: 'The client has it: see If-None-Match' }),
}

/** The answers of a route that also sends parts of files. */
export const RANGED_FILE_ANSWER = {
  200: { description: 'The file', content: FILE },
  206: { description: 'The part of it that Range names', content: FILE },
  304: Type.Null({ description: 'The client has it: see If-None-Match and If-Modified-Since' }),
  416: errorAnswer(416),
}
