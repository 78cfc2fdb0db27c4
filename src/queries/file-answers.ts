/** What answers that are files of a repository have in common. */
import { Type } from 'typebox'

/** What users put into a repository must never run as a page of this server. */
export const FILE_HEADERS = {
  'Content-Security-Policy': "default-src 'none'; sandbox",
  'Cache-Control': 'private, no-cache',
}

/** The media type is that of the file. */
export const FILE_ANSWER = {
  200: { description: 'The file', content: { '*/*': { schema: Type.String({ format: 'binary' }) } } },
  304: Type.Null({ description: 'The client has it: see If-None-Match' }),
}
