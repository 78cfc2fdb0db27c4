/** The schema of the long texts in requests: bodies, descriptions and messages. */
import { Type } from 'typebox'
import type { Services } from '../services.ts'

/** A text of at most `MAX_TEXT_CHARACTERS`. A longer one is answered with 422 and the name of the field. */
export const TextOf = ({ config }: Pick<Services, 'config'>) =>
  Type.String({ maxLength: config.maxTextCharacters })
